package main

import (
	"strings"
	"testing"
)

// TestReminderDrop: what is wrong is said before anything is sent, such as that there is no such reminder.
func TestReminderDrop(t *testing.T) {
	f := &fakeAdmin{}
	admin := serve(t, f)
	for _, test := range []struct {
		command, want string
		code          int
	}{
		{"reminders drop Cart/dora expires --reason x", "Cart/dora has no reminder expires; it has expire (nothing was changed)", exitFailed},
		{"reminders drop Cart/dora expires --dry-run", "has no reminder expires; it has expire", exitFailed},
		{"reminders drop Cart/nobody expire --reason x", "has no reminder expire, and no other one", exitFailed},
		{"reminders drop Cart/dora expire --dry-run", "nothing is changed; without --dry-run it would be so: Cart/dora has no reminder expire any more\n", exitOK},
		{"reminders drop Cart/dora pay --dry-run --idempotency-key k", "any more; it was so before\n", exitOK},
		{"reminders drop Cart/dora pay", "--reason is missing", exitUsage},
		{"reminders drop Cart/dora pay --reason x --timeout 1us", "--timeout is 1µs", exitUsage},
		{"reminders drop Cart pay --reason x", "is not the name of an entity", exitUsage},
		{"reminders drop Cart/dora", "accepts 2 arg(s)", exitUsage},
	} {
		code, out, errOut := roost(t, append(strings.Fields(test.command), "--admin", admin)...)
		if code != test.code || !strings.Contains(out+errOut, test.want) {
			t.Errorf("roost %s: exit code %d: %s%s", test.command, code, out, errOut)
		}
	}
	if n := f.commands.Load(); n != 0 {
		t.Errorf("%d commands are sent", n)
	}
}

package main

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// TestReminderDrop: what is wrong is said before anything is sent, such as that there is no such reminder.
func TestReminderDrop(t *testing.T) {
	f := &fakeAdmin{}
	admin := serve(t, f)
	for _, test := range []struct {
		command, want string
		code          int
	}{
		{"entity reminders drop Cart/dora expires --reason x", "Cart/dora has no reminder expires; it has expire (nothing was changed)", app.ExitFailed},
		{"entity reminders drop Cart/dora expires --dry-run", "has no reminder expires; it has expire", app.ExitFailed},
		{"entity reminders drop Cart/nobody expire --reason x", "has no reminder expire, and no other one", app.ExitFailed},
		{"entity reminders drop Cart/dora expire --dry-run", "nothing is changed; without --dry-run it would be so: Cart/dora has no reminder expire any more\n", app.ExitOK},
		{"entity reminders drop Cart/dora pay --dry-run --idempotency-key k", "any more; it was so before\n", app.ExitOK},
		{"entity reminders drop Cart/dora pay", "--reason is missing", app.ExitUsage},
		{"entity reminders drop Cart/dora pay --reason x --timeout 1us", "--timeout is 1µs", app.ExitUsage},
		{"entity reminders drop Cart pay --reason x", "is not the name of an entity", app.ExitUsage},
		{"entity reminders drop Cart/dora", "accepts 2 arg(s)", app.ExitUsage},
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

package main

import (
	"strings"
	"testing"
)

// TestReminderDrop: what is wrong is said before anything is sent.
func TestReminderDrop(t *testing.T) {
	admin := serve(t, &fakeAdmin{})
	for _, test := range []struct {
		command, want string
		code          int
	}{
		{"reminders drop Cart/dora pay", "--reason is missing", exitUsage},
		{"reminders drop Cart/dora pay --reason x --timeout 1us", "--timeout is 1µs", exitUsage},
		{"reminders drop Cart pay --reason x", "is not the name of an entity", exitUsage},
		{"reminders drop Cart/dora", "accepts 2 arg(s)", exitUsage},
	} {
		code, out, errOut := roost(t, append(strings.Fields(test.command), "--admin", admin)...)
		if code != test.code || !strings.Contains(errOut, test.want) {
			t.Errorf("roost %s: exit code %d: %s%s", test.command, code, out, errOut)
		}
	}
}

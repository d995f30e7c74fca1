package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// noReminder is the error about a reminder that does not stand. It names those that do.
func noReminder(e sharding.Entity, name string, standing []string) error {
	if len(standing) == 0 {
		return fmt.Errorf("%s has no reminder %s, and no other one (nothing was changed)", e, named(name))
	}
	slices.Sort(standing)
	var names []string
	for _, n := range standing[:min(len(standing), mostReminders)] {
		names = append(names, named(n))
	}
	more := ""
	if n := len(standing) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more; roost reminders %s lists all", n, e)
	}
	return fmt.Errorf("%s has no reminder %s; it has %s%s (nothing was changed)", e, named(name), strings.Join(names, ", "), more)
}

// mostReminders is how many reminders an error names.
const mostReminders = 10

// checkReminder returns an error if a reminder does not stand in the journal.
func checkReminder(raw *journal.RawEntity, name string) error {
	var standing []string
	for _, w := range raw.Wakes {
		if w.Kind == sharding.ReminderWake {
			standing = append(standing, w.Name)
		}
	}
	if slices.Contains(standing, name) {
		return nil
	}
	return noReminder(raw.Entity, name, standing)
}

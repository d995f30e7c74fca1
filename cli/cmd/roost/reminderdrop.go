package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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

// reminderDrop removes a reminder in the journal itself, without a region.
type reminderDrop struct{ repair repair }

func (d *reminderDrop) flags(cmd *cobra.Command) {
	d.repair = repair{do: journal.Repair{Do: journal.DropReminder}, shard: noShard}
	d.repair.journal.add(cmd, "URL of the journal, for the owner of its schema: drop the reminder there, without a region")
	cmd.Flags().BoolVar(&d.repair.dryRun, "dry-run", false, "only say what would happen; change nothing")
	cmd.Flags().IntVar(&d.repair.shard, "shard", noShard, "with --journal.url: the shard of the entity, if the coordinators' facts cannot say it")
}

// asked reports whether --journal.url is given.
func (d *reminderDrop) asked() bool { return d.repair.journal.url != "" }

// dry reports whether nothing must be changed.
func (d *reminderDrop) dry() bool { return d.repair.dryRun }

func (d *reminderDrop) run(ctx context.Context, a *app, e sharding.Entity, name, reason string) error {
	d.repair.entity, d.repair.do.Name, d.repair.do.Reason = e, name, reason
	return a.runRepair(ctx, &d.repair)
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

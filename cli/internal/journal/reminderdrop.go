package journal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// NoReminder is the error about a reminder that does not stand. It names those that do.
func NoReminder(e sharding.Entity, name string, standing []string) error {
	if len(standing) == 0 {
		return fmt.Errorf("%s has no reminder %s, and no other one (nothing was changed)", e, phrase.Named(name))
	}
	slices.Sort(standing)
	var names []string
	for _, n := range standing[:min(len(standing), mostReminders)] {
		names = append(names, phrase.Named(n))
	}
	more := ""
	if n := len(standing) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more; roost entity reminders %s lists all", n, e)
	}
	return fmt.Errorf("%s has no reminder %s; it has %s%s (nothing was changed)", e, phrase.Named(name), strings.Join(names, ", "), more)
}

// ReminderDrop removes a reminder in the journal itself, without a region.
type ReminderDrop struct{ repair repair }

// Flags adds the flags of the command.
func (d *ReminderDrop) Flags(cmd *cobra.Command) {
	d.repair = repair{do: journal.Repair{Do: journal.DropReminder}, shard: noShard}
	d.repair.journal.add(cmd, "URL of the journal, for the owner of its schema: drop the reminder there, without a region")
	cmd.Flags().BoolVar(&d.repair.dryRun, "dry-run", false, "only say what would happen; change nothing")
	cmd.Flags().IntVar(&d.repair.shard, "shard", noShard, "with --journal.url: the shard of the entity, if the coordinators' facts cannot say it")
}

// Asked reports whether --journal.url is given.
func (d *ReminderDrop) Asked() bool { return d.repair.journal.url != "" }

// Dry reports whether nothing must be changed.
func (d *ReminderDrop) Dry() bool { return d.repair.dryRun }

// Run removes the reminder, and prints the change.
func (d *ReminderDrop) Run(ctx context.Context, a *app.App, e sharding.Entity, name, reason string) error {
	d.repair.entity, d.repair.do.Name, d.repair.do.Reason = e, name, reason
	return (&group{a}).runRepair(ctx, &d.repair)
}

// mostReminders is the number of reminders that an error names at most.
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
	return NoReminder(raw.Entity, name, standing)
}

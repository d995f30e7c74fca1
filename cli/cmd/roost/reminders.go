package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// reminderDropCommand removes a reminder.
func (a *app) reminderDropCommand() *cobra.Command {
	b := builtin{command: sharding.ReminderDropCommand}
	r := repair{do: journal.Repair{Do: journal.DropReminder}, shard: noShard}
	cmd := &cobra.Command{
		Use: "drop TYPE/ID NAME --reason TEXT", Short: "Remove a reminder", Args: cobra.ExactArgs(2),
		Long: `Removes a reminder of an entity, such as one whose command fails again and again. None
of the entity's code runs for that, so it works for an entity that cannot be brought
to life, and for one that is quarantined. If no such reminder stands, nothing changes,
the reminders that stand are named, and the exit code is 1. A repeat with an
--idempotency-key of your own succeeds all the same, as the first attempt may have
removed it.

With --journal.url it needs no region, as where no region hosts the type any more: it
is removed from the journal itself, like roost repair does, and roost repair list
shows it. PostgreSQL needs the role that owns the schema for that.`,
		Example: `  roost reminders drop Cart/dora pay --reason "the order was cancelled, ticket 4711"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if b.typ, b.id, err = entityOf(args[:1], "TYPE/ID, such as Cart/dora"); err != nil {
				return err
			}
			if r.journal.url != "" {
				r.entity, r.do.Name, r.do.Reason = sharding.Entity{Type: sharding.EntityType(b.typ), ID: sharding.EntityID(b.id)}, args[1], b.reason
				return a.runRepair(cmd.Context(), &r)
			}
			if err := b.check(r.dryRun); err != nil {
				return err
			}
			switch gone, err := a.reminderGone(cmd.Context(), &b, args[1]); {
			case err != nil:
				return err
			case r.dryRun:
				return a.printDropped(&b, args[1], "", gone)
			}
			if b.payload, err = json.Marshal(sharding.ReminderDropInput{Name: args[1]}); err != nil {
				return err
			}
			res, err := a.builtin(cmd.Context(), &b)
			if err != nil {
				return err
			}
			return a.printDropped(&b, args[1], res.Region, false)
		},
	}
	a.builtinFlags(cmd, &b)
	r.journal.add(cmd, "URL of the journal, for the owner of its schema: drop the reminder there, without a region")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "only say what would happen; change nothing")
	cmd.Flags().IntVar(&r.shard, "shard", noShard, "with --journal.url: the shard of the entity, if the coordinators' facts cannot say it")
	return cmd
}

// reminderGone reports whether a reminder is gone although that is no mistake: with a key of the caller's own, an
// earlier attempt may have removed it. Otherwise it is an error if the reminder does not stand.
func (a *app) reminderGone(ctx context.Context, b *builtin, name string) (gone bool, err error) {
	admin, err := a.adminClient()
	if err != nil {
		return false, err
	}
	var standing []string
	for after := ""; ; {
		res, err := admin.Reminders(ctx, &adminv1.RemindersRequest{Type: b.typ, Id: b.id, After: after, Limit: 1000})
		if err != nil {
			return false, err
		}
		for _, r := range res.Reminders {
			if r.Name == name {
				return false, nil
			}
			standing = append(standing, r.Name)
		}
		if len(res.Damaged) > 0 { // it may be the one that is meant
			return false, nil
		}
		if after = res.Next; after == "" {
			break
		}
	}
	if b.key != "" {
		return true, nil
	}
	return false, noReminder(sharding.Entity{Type: sharding.EntityType(b.typ), ID: sharding.EntityID(b.id)}, name, standing)
}

// mostReminders is how many reminders an error names.
const mostReminders = 10

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

// printDropped says that a reminder is removed; or, without a region, that it would be.
func (a *app) printDropped(b *builtin, name, region string, gone bool) error {
	if a.json() {
		return a.printJSON(map[string]any{"type": b.typ, "id": b.id, "reminder": name, "dropped": region != "", "region": region})
	}
	text := fmt.Sprintf("%s/%s has no reminder %s any more", b.typ, quoted(b.id), named(name))
	switch {
	case gone:
		text += soBefore
	case region == "":
		text = afterwards + text
	default:
		text += " (by " + region + ")"
	}
	return a.printLines([]string{text})
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// reminderDropCommand removes a reminder.
func (a *app) reminderDropCommand() *cobra.Command {
	b := builtin{command: sharding.ReminderDropCommand}
	var stored reminderDrop
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
			if stored.asked() {
				return stored.run(cmd.Context(), a, sharding.Entity{Type: sharding.EntityType(b.typ), ID: sharding.EntityID(b.id)}, args[1], b.reason)
			}
			if err := b.check(stored.dry()); err != nil {
				return err
			}
			switch gone, err := a.reminderGone(cmd.Context(), &b, args[1]); {
			case err != nil:
				return err
			case stored.dry():
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
	stored.flags(cmd)
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

// printDropped says that a reminder is removed; or, without a region, that it would be.
func (a *app) printDropped(b *builtin, name, region string, gone bool) error {
	if a.json() {
		return a.printJSON(map[string]any{"type": b.typ, "id": b.id, "reminder": name, "dropped": region != "", "region": region})
	}
	text := fmt.Sprintf("%s/%s has no reminder %s any more", b.typ, b.id, named(name))
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

func (a *app) remindersCommand() *cobra.Command {
	var l listed
	var before string
	cmd := &cobra.Command{
		Use: "reminders [TYPE | TYPE ID | TYPE/ID]", Short: "List the reminders of entities",
		Long: `Lists the reminders that stand: of all entities, of those of a type, or of one. The order
is that of the types and shards, and in each shard that of the times at which they are due,
by the clock of the journal's store. A reminder whose time is over fires soon, or has
failed and is tried again.

` + listedHelp,
		Example: "  roost reminders\n  roost reminders Cart/dora\n  roost reminders Cart --due-before 1h\n  roost reminders --failing",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := l.of(args); err != nil {
				return err
			}
			due, err := dueBefore(before, time.Now())
			if err != nil {
				return err
			}
			if l.failing && due != 0 {
				return usageError{errors.New("--failing cannot be combined with --due-before: reminders that fail were all due")}
			}
			admin, err := a.adminClient()
			if err != nil {
				return err
			}
			all := &adminv1.RemindersResponse{}
			err = l.pages(func(after string, limit uint32) (int, string, error) {
				res, err := admin.Reminders(cmd.Context(), &adminv1.RemindersRequest{Type: l.typ, Id: l.id, DueBeforeUnixMs: due, After: after, Limit: limit, Failing: l.failing})
				if err != nil {
					return 0, "", err
				}
				all.Reminders, all.Damaged, all.Next = append(all.Reminders, res.Reminders...), append(all.Damaged, res.Damaged...), res.Next
				all.Silent, all.More = append(all.Silent, res.Silent...), res.More
				return len(all.Reminders), res.Next, nil
			})
			if err != nil {
				return err
			}
			var rows [][]any
			var failures []*adminv1.Failure
			for _, r := range all.Reminders {
				period := "-"
				if r.PeriodMs > 0 {
					period = (time.Duration(r.PeriodMs) * time.Millisecond).String()
				}
				rows = append(rows, []any{named(r.Type + "/" + r.Id), named(r.Name), timeOf(r.DueUnixMs), period, orDash(r.Command)})
				failures = append(failures, r.Failure)
			}
			if a.json() {
				return a.printMessage(all)
			}
			return a.printListed([]string{"ENTITY", "NAME", "DUE", "PERIOD", "COMMAND"}, rows, failures, answered{all.Next, all.Damaged, all.Silent, all.More})
		},
	}
	l.flags(cmd)
	cmd.Flags().StringVar(&before, "due-before", "", "only what is due before this time: 2026-07-01T12:00:00Z, or 1h for an hour from now")
	cmd.AddCommand(a.reminderDropCommand())
	return cmd
}

// dueBefore parses a time, or how long it is until then, in Unix milliseconds; 0: none is given.
func dueBefore(text string, now time.Time) (int64, error) {
	if text == "" {
		return 0, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		var in time.Duration
		if in, err = time.ParseDuration(text); err == nil {
			at = now.Add(in)
		}
	}
	if err != nil || at.UnixMilli() <= 0 {
		return 0, usageError{fmt.Errorf("--due-before %q: write a time such as 2026-07-01T12:00:00Z, or how long it is until then, such as 1h", text)}
	}
	return at.UnixMilli(), nil
}

package entity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/journal"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// reminderDropCommand removes a reminder.
func (a *group) reminderDropCommand() *cobra.Command {
	b := builtin{command: sharding.ReminderDropCommand}
	var stored journal.ReminderDrop
	cmd := &cobra.Command{
		Use: "drop TYPE/ID NAME --reason TEXT", Short: "Remove a reminder", Args: cobra.ExactArgs(2),
		Long: `Removes a reminder of an entity, such as one whose command fails again and again. None
of the entity's code runs for that, so it works for an entity that cannot be brought
to life, and for one that is quarantined. If no such reminder stands, nothing changes,
the reminders that stand are named, and the exit code is 1. A repeat with an
--idempotency-key of your own succeeds all the same, as the first attempt may have
removed it.

With --journal.url it needs no region, as where no region hosts the type any more: it
is removed from the journal itself, like roost journal repair does, and roost journal repair ls
shows it. PostgreSQL needs the role that owns the schema for that.`,
		Example: `  roost entity reminders drop Cart/dora pay --reason "the order was cancelled, ticket 4711"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if b.typ, b.id, err = app.EntityOf(args[:1], "TYPE/ID, such as Cart/dora"); err != nil {
				return err
			}
			if stored.Asked() {
				return stored.Run(cmd.Context(), a.App, sharding.Entity{Type: sharding.EntityType(b.typ), ID: sharding.EntityID(b.id)}, args[1], b.reason)
			}
			if err := b.check(stored.Dry()); err != nil {
				return err
			}
			switch gone, err := a.reminderGone(cmd.Context(), &b, args[1]); {
			case err != nil:
				return err
			case stored.Dry():
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
	stored.Flags(cmd)
	return cmd
}

// reminderGone reports whether a reminder is gone for a legitimate reason: with the caller's own idempotency key, an
// earlier attempt may have removed it. Otherwise a missing reminder is an error.
func (a *group) reminderGone(ctx context.Context, b *builtin, name string) (gone bool, err error) {
	admin, err := a.AdminClient()
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
	return false, journal.NoReminder(sharding.Entity{Type: sharding.EntityType(b.typ), ID: sharding.EntityID(b.id)}, name, standing)
}

// printDropped reports that a reminder is removed; or, without a region, that it would be.
func (a *group) printDropped(b *builtin, name, region string, gone bool) error {
	if a.JSON() {
		return a.PrintJSON(map[string]any{"type": b.typ, "id": b.id, "reminder": name, "dropped": region != "", "region": region})
	}
	text := fmt.Sprintf("%s/%s has no reminder %s any more", b.typ, phrase.Quoted(b.id), phrase.Named(name))
	switch {
	case gone:
		text += app.SoBefore
	case region == "":
		text = app.Afterwards + text
	default:
		text += " (by " + region + ")"
	}
	return a.PrintLines([]string{text})
}

func (a *group) remindersCommand() *cobra.Command {
	var l app.Listed
	var before string
	cmd := &cobra.Command{
		Use: "reminders [TYPE | TYPE ID | TYPE/ID]", Short: "List reminders of entities",
		Long: `Lists the pending reminders of all entities, of a type, or of one entity. They are ordered
by type and shard, and in each shard by the time at which they are due, by the clock of the journal's
store. A reminder whose time is over fires soon, or has
failed and is tried again.

` + listedHelp,
		Example: "  roost entity reminders\n  roost entity reminders Cart/dora\n  roost entity reminders Cart --due-before 1h\n  roost entity reminders --failing",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := l.Of(args); err != nil {
				return err
			}
			due, err := dueBefore(before, time.Now())
			if err != nil {
				return err
			}
			if l.Failing && due != 0 {
				return app.Usage(errors.New("--failing cannot be combined with --due-before: reminders that fail were all due"))
			}
			admin, err := a.AdminClient()
			if err != nil {
				return err
			}
			all := &adminv1.RemindersResponse{}
			err = l.Pages(func(after string, limit uint32) (int, string, error) {
				res, err := admin.Reminders(cmd.Context(), &adminv1.RemindersRequest{Type: l.Type, Id: l.ID, DueBeforeUnixMs: due, After: after, Limit: limit, Failing: l.Failing})
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
				rows = append(rows, []any{phrase.Named(r.Type + "/" + r.Id), phrase.Named(r.Name), phrase.TimeOf(r.DueUnixMs), period, phrase.OrDash(r.Command)})
				failures = append(failures, r.Failure)
			}
			if a.JSON() {
				return a.PrintMessage(all)
			}
			return a.printListed([]string{"ENTITY", "NAME", "DUE", "PERIOD", "COMMAND"}, rows, failures, answered{all.Next, all.Damaged, all.Silent, all.More})
		},
	}
	listedFlags(&l, cmd)
	cmd.Flags().StringVar(&before, "due-before", "", "only reminders due before this time: 2026-07-01T12:00:00Z, or 1h for an hour from now")
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
		return 0, app.Usage(fmt.Errorf("--due-before %q: write a time such as 2026-07-01T12:00:00Z, or how long it is until then, such as 1h", text))
	}
	return at.UnixMilli(), nil
}

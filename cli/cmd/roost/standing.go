package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// listed is what the flags and the argument of a listing ask for.
type listed struct {
	typ, id, after string
	limit          uint32
}

const listedHelp = `It is read from the journal page by page, while the cluster works: what is set, or
ends, meanwhile may be in it or not. If there is more than --limit, the last line
says where to go on; so does next in JSON.`

func (l *listed) flags(cmd *cobra.Command) {
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.Flags().Uint32Var(&l.limit, "limit", 1000, "how many to list")
	cmd.Flags().StringVar(&l.after, "after", "", "go on where the listing before ended, as it says")
}

// of takes the argument: nothing, a type, or an entity.
func (l *listed) of(args []string) (err error) {
	if l.limit == 0 {
		return usageError{errors.New("--limit is 0; it must be at least 1")}
	}
	switch {
	case len(args) == 0:
	case strings.Contains(args[0], "/"):
		l.typ, l.id, err = entityOf(args, "TYPE or TYPE/ID, such as Cart or Cart/dora")
	default:
		l.typ = args[0]
		if err = sharding.CheckEntityType("type", sharding.EntityType(l.typ)); err != nil {
			err = usageError{err}
		}
	}
	return err
}

// pages asks for pages until all is listed, or as much as was asked for. page returns how many
// rows there are now, and where to go on.
func (l *listed) pages(page func(after string, limit uint32) (n int, next string, err error)) error {
	for after, n := l.after, 0; n < int(l.limit); {
		var err error
		if n, after, err = page(after, l.limit-uint32(n)); err != nil || after == "" {
			return err
		}
	}
	return nil
}

// printListed prints a table of what is listed, and what else is to be said.
func (a *app) printListed(header []string, rows [][]any, damaged []string, next string, right ...string) error {
	if err := a.printTable(header, rows, right...); err != nil {
		return err
	}
	for _, d := range damaged {
		if _, err := fmt.Fprintln(a.out, "damaged: "+d); err != nil {
			return err
		}
	}
	if next == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.out, "more are left; go on with --after %s\n", next)
	return err
}

func (a *app) remindersCommand() *cobra.Command {
	var l listed
	var before string
	cmd := &cobra.Command{
		Use: "reminders [TYPE | TYPE/ID]", Short: "List the reminders of entities",
		Long: `Lists the reminders that stand: of all entities, of those of a type, or of one. The order
is that of the types and shards, and in each shard that of the times at which they are due,
by the clock of the journal's store. A reminder whose time is over fires soon, or has
failed and is tried again: the log of its region says why.

` + listedHelp,
		Example: "  roost reminders\n  roost reminders Cart/dora\n  roost reminders Cart --due-before 1h",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := l.of(args); err != nil {
				return err
			}
			due, err := dueBefore(before, time.Now())
			if err != nil {
				return err
			}
			admin, err := a.adminClient()
			if err != nil {
				return err
			}
			all := &adminv1.RemindersResponse{}
			err = l.pages(func(after string, limit uint32) (int, string, error) {
				res, err := admin.Reminders(cmd.Context(), &adminv1.RemindersRequest{Type: l.typ, Id: l.id, DueBeforeUnixMs: due, After: after, Limit: limit})
				if err != nil {
					return 0, "", err
				}
				all.Reminders, all.Damaged, all.Next = append(all.Reminders, res.Reminders...), append(all.Damaged, res.Damaged...), res.Next
				return len(all.Reminders), res.Next, nil
			})
			if err != nil {
				return err
			}
			if a.json() {
				return a.printMessage(all)
			}
			var rows [][]any
			for _, r := range all.Reminders {
				period := "-"
				if r.PeriodMs > 0 {
					period = (time.Duration(r.PeriodMs) * time.Millisecond).String()
				}
				rows = append(rows, []any{r.Type + "/" + r.Id, r.Name, timeOf(r.DueUnixMs), period, orDash(r.Command)})
			}
			return a.printListed([]string{"ENTITY", "NAME", "DUE", "PERIOD", "COMMAND"}, rows, all.Damaged, all.Next)
		},
	}
	l.flags(cmd)
	cmd.Flags().StringVar(&before, "due-before", "", "only what is due before this time: 2026-07-01T12:00:00Z, or 1h for an hour from now")
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

// timeOf writes a time in Unix milliseconds for people.
func timeOf(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// listSends is what roost sends does without one of its commands.
func (a *app) listSends(cmd *cobra.Command) {
	var l listed
	var dead bool
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := l.of(args); err != nil {
			return err
		}
		admin, err := a.adminClient()
		if err != nil {
			return err
		}
		all := &adminv1.SendsResponse{}
		err = l.pages(func(after string, limit uint32) (int, string, error) {
			res, err := admin.Sends(cmd.Context(), &adminv1.SendsRequest{Type: l.typ, Id: l.id, Dead: dead, After: after, Limit: limit})
			if err != nil {
				return 0, "", err
			}
			all.Sends, all.Damaged, all.Next = append(all.Sends, res.Sends...), append(all.Damaged, res.Damaged...), res.Next
			return len(all.Sends), res.Next, nil
		})
		if err != nil {
			return err
		}
		if a.json() {
			return a.printMessage(all)
		}
		var rows [][]any
		for _, s := range all.Sends {
			rows = append(rows, []any{s.Type + "/" + s.Id, s.Record, s.Place, s.State, timeOf(s.SentUnixMs), s.TargetType + "/" + s.TargetId, s.Command})
		}
		return a.printListed([]string{"SENDER", "RECORD", "PLACE", "STATE", "SENT", "TARGET", "COMMAND"}, rows, all.Damaged, all.Next, "RECORD", "PLACE")
	}
	l.flags(cmd)
	cmd.Flags().BoolVar(&dead, "dead", false, "only dead letters")
}

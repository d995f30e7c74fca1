package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// listed is what the flags and the argument of a listing ask for.
type listed struct {
	typ, id, after string
	limit          uint32
	failing        bool
}

const listedHelp = `It is read from the journal page by page, while the cluster works: what is set, or
ends, meanwhile may be in it or not. If there is more than --limit, the last line
says where to go on; so does next in JSON.

FAILED, NEXT, REGION and WHY are shown if something of the list keeps failing: how often it
has failed in a row, when it is tried again, the region that tries it, and the last error,
with that of the handler. The log has its stack, under the reference in WHY: that of REGION, and
for a send that of the region of its target (roost where TARGET). The regions say so from memory; those that have not
answered are named below the list. With --failing, they say all: only what fails is
listed, first what has failed for longest. What is stored in shards that no region reads
is tried by no region: the list says so of each, and below it why.

The middle of long names is left out, and names with characters that are not shown are
quoted; -o json has all.`

func (l *listed) flags(cmd *cobra.Command) {
	cmd.Args = cobra.MaximumNArgs(2)
	cmd.Flags().Uint32Var(&l.limit, "limit", 1000, "how many to list")
	cmd.Flags().StringVar(&l.after, "after", "", "go on where the listing before ended, as it says")
	cmd.Flags().BoolVar(&l.failing, "failing", false, "only what keeps failing")
}

// of takes the argument: nothing, a type, or an entity.
func (l *listed) of(args []string) (err error) {
	switch {
	case l.limit == 0:
		return usageError{errors.New("--limit is 0; it must be at least 1")}
	case l.failing && l.after != "":
		return usageError{errors.New("--failing cannot be combined with --after: what has failed for longest comes first")}
	}
	switch {
	case len(args) == 0:
	case len(args) == 2 || strings.Contains(args[0], "/"):
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

// answered is what an answer says beside its rows.
type answered struct {
	next    string
	damaged []string
	silent  []*adminv1.Silent
	more    bool
}

// printListed prints a table of what is listed, and what else is to be said. failures are those of
// the rows.
func (a *app) printListed(header []string, rows [][]any, failures []*adminv1.Failure, r answered, right ...string) error {
	cut := false
	if slices.ContainsFunc(failures, func(f *adminv1.Failure) bool { return f != nil }) {
		header, right = append(header, "FAILED", "NEXT", "REGION", "WHY"), append(right, "FAILED")
		for i, f := range failures {
			times, next, region, why := "-", "-", "-", "-"
			if f != nil {
				region, why = orDash(f.Region), oneLine(f.Code+": "+f.Message)
				cut = cut || len(why) > mostShown
				if f.Times > 0 {
					times = fmt.Sprint(f.Times)
				}
				if f.NextUnixMs > 0 {
					next = timeOf(f.NextUnixMs)
				}
			}
			rows[i] = append(rows[i], times, next, region, why)
		}
	}
	if err := a.printTable(header, rows, right...); err != nil {
		return err
	}
	var lines []string
	if cut {
		lines = append(lines, "what ends in … is longer; -o json has all of it")
	}
	for _, d := range r.damaged {
		lines = append(lines, "damaged: "+printable(d))
	}
	told := map[string]bool{}
	for _, s := range r.silent {
		line := printable(s.Reason)
		if s.Region != "" {
			line = "what fails in " + s.Region + " is not known: " + line
		}
		if !told[line] {
			told[line] = true
			lines = append(lines, line)
		}
	}
	if r.more {
		lines = append(lines, "more fails; name a type or an entity, or ask for more by --limit (at most 1000)")
	}
	if r.next != "" {
		lines = append(lines, "more are left; go on with --after "+r.next)
	}
	if len(lines) == 0 {
		return nil
	}
	return a.printLines(lines)
}

// mostShown is how much of an error a table shows, in bytes: the references and versions that
// errors of regions end with are within it. JSON has all that is known.
const mostShown = 400

// printable makes a text from elsewhere fit to be shown in a line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// oneLine makes a text from elsewhere fit to be shown in a table.
func oneLine(text string) string {
	text = printable(text)
	if len(text) > mostShown {
		text = strings.ToValidUTF8(text[:mostShown], "") + "…"
	}
	return text
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

func (a *app) rememberedCommand() *cobra.Command {
	var l listed
	cmd := &cobra.Command{
		Use: "remembered [TYPE | TYPE ID | TYPE/ID]", Short: "List the entities that are remembered, and those that cannot be started",
		Long: `Lists the entities that are brought to life whenever their shard starts, without a
command: all of them, those of a type, or one. The order is that of the types and shards,
and in each shard those come first that were active last. ACTIVE is when that was, to the
hour. What cannot be started, or has died, is tried again.

` + listedHelp,
		Example: "  roost remembered Probe\n  roost remembered --failing",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := l.of(args); err != nil {
				return err
			}
			admin, err := a.adminClient()
			if err != nil {
				return err
			}
			all := &adminv1.RememberedResponse{}
			err = l.pages(func(after string, limit uint32) (int, string, error) {
				res, err := admin.Remembered(cmd.Context(), &adminv1.RememberedRequest{Type: l.typ, Id: l.id, After: after, Limit: limit, Failing: l.failing})
				if err != nil {
					return 0, "", err
				}
				all.Remembered, all.Damaged, all.Next = append(all.Remembered, res.Remembered...), append(all.Damaged, res.Damaged...), res.Next
				all.Silent, all.More = append(all.Silent, res.Silent...), res.More
				return len(all.Remembered), res.Next, nil
			})
			if err != nil {
				return err
			}
			var rows [][]any
			var failures []*adminv1.Failure
			for _, r := range all.Remembered {
				active := "-"
				if r.ActiveUnixMs > 0 {
					active = timeOf(r.ActiveUnixMs)
				}
				rows, failures = append(rows, []any{named(r.Type + "/" + r.Id), active}), append(failures, r.Failure)
			}
			if a.json() {
				return a.printMessage(all)
			}
			return a.printListed([]string{"ENTITY", "ACTIVE"}, rows, failures, answered{all.Next, all.Damaged, all.Silent, all.More})
		},
	}
	l.flags(cmd)
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
		if l.failing && dead {
			return usageError{errors.New("--failing cannot be combined with --dead: a dead letter is not tried any more")}
		}
		admin, err := a.adminClient()
		if err != nil {
			return err
		}
		all := &adminv1.SendsResponse{}
		err = l.pages(func(after string, limit uint32) (int, string, error) {
			res, err := admin.Sends(cmd.Context(), &adminv1.SendsRequest{Type: l.typ, Id: l.id, Dead: dead, After: after, Limit: limit, Failing: l.failing})
			if err != nil {
				return 0, "", err
			}
			all.Sends, all.Damaged, all.Next = append(all.Sends, res.Sends...), append(all.Damaged, res.Damaged...), res.Next
			all.Silent, all.More = append(all.Silent, res.Silent...), res.More
			return len(all.Sends), res.Next, nil
		})
		if err != nil {
			return err
		}
		var rows [][]any
		var failures []*adminv1.Failure
		header := []string{"SENDER", "RECORD", "PLACE", "STATE", "SENT", "TARGET", "COMMAND"}
		until := slices.ContainsFunc(all.Sends, func(s *adminv1.Send) bool { return s.UntilUnixMs > 0 })
		if until {
			header = append(header, "UNTIL")
		}
		for _, s := range all.Sends {
			row := []any{named(s.Type + "/" + s.Id), s.Record, s.Place, s.State, timeOf(s.SentUnixMs), named(s.TargetType + "/" + s.TargetId), s.Command}
			switch {
			case s.UntilUnixMs > 0:
				row = append(row, timeOf(s.UntilUnixMs))
			case until:
				row = append(row, "-")
			}
			rows = append(rows, row)
			failures = append(failures, whatFails(s))
		}
		if a.json() {
			return a.printMessage(all)
		}
		return a.printListed(header, rows, failures,
			answered{all.Next, all.Damaged, all.Silent, all.More}, "RECORD", "PLACE")
	}
	l.flags(cmd)
	cmd.Flags().BoolVar(&dead, "dead", false, "only dead letters")
}

// whatFails says in words if not the send itself fails, but what it waits for.
func whatFails(s *adminv1.Send) *adminv1.Failure {
	f := s.Failure
	switch {
	case f == nil:
		return nil
	case s.Answer:
		return &adminv1.Failure{Times: f.Times, NextUnixMs: f.NextUnixMs, Code: "the sender cannot take the answer: " + f.Code, Message: f.Message}
	case s.Behind:
		return &adminv1.Failure{Times: f.Times, NextUnixMs: f.NextUnixMs, Code: "waits for an earlier one: " + f.Code, Message: f.Message}
	}
	return f
}

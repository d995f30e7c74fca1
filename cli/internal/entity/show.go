package entity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// mostRecords is the largest number of records that a coordinator answers.
const mostRecords = 1000

func (a *group) showCommand() *cobra.Command {
	var req adminv1.EntityRequest
	var timeout app.QueryTimeout
	cmd := &cobra.Command{
		Use: "show TYPE ID | TYPE/ID", Short: "Show the state and records of an entity", Args: cobra.RangeArgs(1, 2),
		Example: "  roost entity show Cart/anna\n  roost entity show Cart/anna --events 50 --payloads\n  roost entity show Cart/anna --state",
		Long: `Shows where an entity is, what its region has of it in memory (state, mailbox, the turn that
runs, timers), and what the journal has: the newest records with their events, the snapshot, reminders,
and sends that have not ended. It changes nothing, and brings no entity to life.

The region and the journal are queried at the same time. If one of them does not answer, the output
names it, and shows the rest.

--payloads shows what is in the events, and --state the state that the durable records make, from a
copy that the region makes for the answer. Both are data of your users: coordinator.show_payloads must be
set for them, and region.show_payloads for the state.`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.Type, req.Id, err = app.EntityOf(args, "TYPE ID or TYPE/ID, such as Cart/anna"); err != nil {
				return err
			}
			if req.Records > mostRecords {
				return app.Usage(fmt.Errorf("--events is %d, must be at most %d; go on with --before", req.Records, mostRecords))
			}
			if cmd.Flags().Changed("before") && req.Before == 0 {
				return app.Usage(errors.New("--before is 0; there is no record before the first one, which has the number 1"))
			}
			if req.TimeoutMs, err = timeout.Milliseconds(); err != nil {
				return err
			}
			admin, err := a.AdminClient()
			if err != nil {
				return err
			}
			res, err := admin.Entity(cmd.Context(), &req)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintMessage(res)
			}
			return a.printEntity(&req, res)
		},
	}
	flags := cmd.Flags()
	flags.Uint32Var(&req.Records, "events", 5, "how many of the newest records to list, with their events")
	flags.Uint64Var(&req.Before, "before", 0, "only records with lower numbers")
	flags.BoolVar(&req.Payloads, "payloads", false, "what is in the events, where that is allowed")
	flags.BoolVar(&req.State, "state", false, "the state, where that is allowed")
	timeout.Flag(cmd)
	return cmd
}

// labelled writes lines of a label and a value.
type labelled []string

func (l *labelled) add(label, format string, values ...any) {
	*l = append(*l, strings.TrimRight(fmt.Sprintf("%-10s %s", label, fmt.Sprintf(format, values...)), " "))
}

func (a *group) printEntity(req *adminv1.EntityRequest, res *adminv1.EntityResponse) error {
	var out labelled
	s := res.Where.Shard
	out.add("entity", "%s", phrase.Named(req.Type+"/"+req.Id))
	shard := fmt.Sprintf("%s/%d", s.Type, s.Index)
	if res.Where.ShardKey != "" {
		shard += fmt.Sprintf(", key %q", res.Where.ShardKey)
	}
	out.add("shard", "%s", shard)
	switch {
	case s.Reason != "":
		out.add("owner", "none, %s; see roost shard ls --type %s", s.Reason, s.Type)
	case s.Addr == "":
		out.add("owner", "none: its first command will place the shard")
	default:
		cause := ""
		if s.Cause != "" {
			cause = ", because " + sharding.CauseText(s.Cause)
		}
		out.add("owner", "%s (%s), %s at epoch %s%s", phrase.Named(s.Region), s.Addr, s.Phase, s.Epoch, cause)
	}
	out.memory(res)
	out.stored(res)
	out.standing(res)
	for _, x := range res.Silent {
		if x.Region != "" {
			out.add("missing", "%s: %s", phrase.Named(x.Region), phrase.Printable(x.Reason))
		} else if s.Addr != "" || !strings.HasPrefix(x.Reason, "no region owns") {
			out.add("missing", "%s", phrase.Printable(x.Reason))
		}
	}
	for _, d := range res.Damaged {
		out.add("damaged", "%s", phrase.Printable(d))
	}
	if err := a.PrintLines(out); err != nil {
		return err
	}
	if err := a.printRecords(res); err != nil {
		return err
	}
	return a.printState(req, res.State)
}

// memory adds the entity's state in the region.
func (l *labelled) memory(res *adminv1.EntityResponse) {
	m := res.Memory
	if res.Quarantined != "" {
		l.add("quarantine", "%s", phrase.Printable(res.Quarantined))
	}
	if m == nil {
		if len(res.Silent) == 0 && res.Quarantined == "" {
			l.add("memory", "not in memory: its next command loads it")
		}
		return
	}
	state := m.State
	if m.Bytes > 0 {
		state += ", " + byteCount(m.Bytes)
	}
	if m.IdleMs > 0 {
		state += ", idle for " + forSoLong(m.IdleMs)
	}
	if m.Staged > m.Record {
		state += fmt.Sprintf(", writes records up to %d", m.Staged)
	}
	l.add("memory", "%s", state)
	mailbox := phrase.Plural(int(m.Mailbox), "command")
	if m.OldestMs > 0 {
		mailbox += ", the oldest for " + forSoLong(m.OldestMs)
	}
	l.add("mailbox", "%s", mailbox)
	if m.Running != "" {
		l.add("running", "%s", runningText(m))
	}
	for _, t := range res.Timers {
		text := fmt.Sprintf("%s runs %s in %s", phrase.Named(t.Name), phrase.Named(t.Command), time.Duration(t.DueMs)*time.Millisecond)
		if t.PeriodMs > 0 {
			text += fmt.Sprintf(", and then every %s", time.Duration(t.PeriodMs)*time.Millisecond)
		}
		l.add("timer", "%s", text)
	}
	if res.UnlistedTimers > 0 {
		l.add("", "and %s", phrase.Plural(int(res.UnlistedTimers), "more timer"))
	}
}

// stored adds the entity's state in the journal.
func (l *labelled) stored(res *adminv1.EntityResponse) {
	s := res.Stored
	switch {
	case res.Volatile:
		l.add("stored", "nothing: the type is volatile")
		return
	case s == nil:
		return // see damaged
	case s.Last == 0:
		l.add("stored", "nothing")
		return
	}
	text := fmt.Sprintf("records up to %d", s.Last)
	if s.Life > 0 {
		text += fmt.Sprintf(", deleted by record %d", s.Life)
	}
	if s.Trimmed > 0 {
		text += fmt.Sprintf(", events up to record %d are trimmed", s.Trimmed)
	}
	l.add("stored", "%s", text)
	if s.Snapshot > 0 {
		l.add("snapshot", "after record %d, %s", s.Snapshot, byteCount(s.SnapshotBytes))
	}
}

// standing adds what the entity will do or receive without a command from outside.
func (l *labelled) standing(res *adminv1.EntityResponse) {
	if res.RememberedUnixMs > 0 {
		l.add("remembered", "last active %s", phrase.TimeOf(res.RememberedUnixMs))
	}
	for _, r := range res.Reminders {
		text := fmt.Sprintf("%s runs %s at %s", phrase.Named(r.Name), phrase.Named(phrase.OrDash(r.Command)), phrase.TimeOf(r.DueUnixMs))
		if r.PeriodMs > 0 {
			text += ", and then every " + (time.Duration(r.PeriodMs) * time.Millisecond).String()
		}
		l.add("reminder", "%s%s", text, failedText(r.Failure))
	}
	if res.MoreReminders {
		l.add("", "and more: roost entity reminders TYPE/ID")
	}
	for _, s := range res.Sends {
		l.add("send", "%s to %s, %s since %s%s", phrase.Named(s.Command), phrase.Named(s.TargetType+"/"+s.TargetId), s.State, phrase.TimeOf(s.SentUnixMs), failedText(s.Failure))
	}
	if res.MoreSends {
		l.add("", "and more: roost entity sends TYPE/ID")
	}
}

func failedText(f *adminv1.Failure) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("; failed %d times: %s", f.Times, phrase.OneLine(f.Code+": "+f.Message))
}

// byteCount is a size for people.
func byteCount(n uint64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 10<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n == 1:
		return "1 byte"
	}
	return strconv.FormatUint(n, 10) + " bytes"
}

func (a *group) printRecords(res *adminv1.EntityResponse) error {
	if len(res.Stored.GetRecords()) == 0 {
		return nil
	}
	var rows [][]any
	var payloads []string
	for _, r := range res.Stored.Records {
		at, what := "-", recordText(r)
		if r.AtUnixMs > 0 {
			at = phrase.TimeOf(r.AtUnixMs)
		}
		rows = append(rows, []any{r.Number, at, r.Bytes, r.Epoch, phrase.Named(phrase.OrDash(r.CommandId)), what})
		for _, e := range r.Events {
			if len(e.Payload) > 0 {
				payloads = append(payloads, fmt.Sprintf("%d %s %s", r.Number, phrase.Named(e.Name), payloadText(e.Payload, e.Json)))
			}
		}
	}
	if err := a.PrintLines([]string{""}); err != nil {
		return err
	}
	if err := a.PrintTable([]string{"RECORD", "STORED", "BYTES", "EPOCH", "COMMAND ID", "WHAT"}, rows, "RECORD", "BYTES"); err != nil {
		return err
	}
	if res.Stored.More {
		payloads = append([]string{fmt.Sprintf("there are earlier records: --before %d", res.Stored.Records[len(res.Stored.Records)-1].Number)}, payloads...)
	}
	if len(payloads) == 0 {
		return nil
	}
	return a.PrintLines(payloads)
}

// recordText describes the content of a record.
func recordText(r *adminv1.Record) string {
	if r.Damaged != "" {
		return "damaged: " + phrase.OneLine(r.Damaged)
	}
	var parts []string
	for _, e := range r.Events {
		text := phrase.Named(e.Name)
		if e.Version > 0 {
			text += fmt.Sprintf(" v%d", e.Version)
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", text, byteCount(e.Bytes)))
	}
	if r.Wakes > 0 {
		parts = append(parts, phrase.Plural(int(r.Wakes), "reminder"))
	}
	for _, s := range r.Sends {
		parts = append(parts, "send "+phrase.Named(s.Command)+" to "+phrase.Named(s.TargetType+"/"+s.TargetId))
	}
	if r.Delete {
		parts = append(parts, "deleted")
	}
	if r.Operator {
		parts = append(parts, "by an operator")
	}
	if len(parts) == 0 {
		return "nothing: only a command id, or an unknown outcome was settled"
	}
	return strings.Join(parts, ", ")
}

// payloadText returns a stored payload on one line.
func payloadText(b []byte, isJSON bool) string {
	var compact bytes.Buffer
	if isJSON && json.Compact(&compact, b) == nil {
		return phrase.Printable(compact.String())
	}
	return strconv.Quote(string(b))
}

func (a *group) printState(req *adminv1.EntityRequest, s *adminv1.EntityState) error {
	if !req.State || s == nil {
		return nil
	}
	lines := []string{"", fmt.Sprintf("state after record %d, %s:", s.Record, byteCount(s.Bytes))}
	var pretty bytes.Buffer
	switch {
	case len(s.State) == 0 && s.Bytes > 0:
		lines = append(lines, "it is too long to be shown")
	case s.Json && json.Indent(&pretty, s.State, "", "  ") == nil:
		for line := range strings.Lines(pretty.String()) {
			lines = append(lines, phrase.Printable(strings.TrimRight(line, "\n")))
		}
	default:
		lines = append(lines, payloadText(s.State, false))
	}
	return a.PrintLines(lines)
}

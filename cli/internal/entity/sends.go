package entity

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) sendsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sends [TYPE | TYPE ID | TYPE/ID]", Short: "List pending sends and dead letters",
		Long: `Lists the pending sends and the dead letters of all senders, of a sender's type, or of one sender.
Dead letters come first. STATE is

  pending   it is delivered automatically, and retried if it fails
  refused   a dead letter: it had no effect
  in doubt  a dead letter: it may have had its effect

UNTIL is the time at which a failing send is given up: its command may have its own MaxAge.

` + deadLetterHelp + `

` + listedHelp,
		Example: "  roost entity sends --failing\n  roost entity sends --dead\n  roost entity sends Cart/dora\n  roost entity sends again Cart/dora 7 0 --reason \"the item is back, ticket 4711\"\n  roost entity sends retry --to Payment",
	}
	a.listSends(cmd)
	cmd.AddCommand(a.sendAgainCommand(), a.sendDropCommand(), a.retrySendsCommand())
	return cmd
}

const deadLetterHelp = `A dead letter is a command that an entity has sent to another one, that is not
delivered any more, and whose sender was not notified. It is named by its sender,
by the number of the record that has sent it, and by its place among the sends of that
record, from 0. "roost entity sends --dead" lists all three, with the target and the command, and
why it was given up if its region still knows. The region logs that when it happens.`

func (a *group) sendAgainCommand() *cobra.Command {
	var in sharding.DeadLetterInput
	cmd := a.deadLetterCommand(sharding.SendAgainCommand, &in, &cobra.Command{
		Use: "again TYPE/ID RECORD PLACE --reason TEXT", Short: "Send a dead letter again",
		Long: deadLetterHelp + `

Sending it again makes a new send of the same command, in a new record of the sender,
and ends the dead letter, in one transaction. The new send comes behind all that
the sender has sent before, and has its effect at most once. A dead letter in doubt may have had
its effect already: its target would execute it a second time. Look at the target
first, and then drop the dead letter, or send it again with --may-repeat. If the sender was
deleted since then, its next life is not told the answer.`,
		Example: `  roost entity sends again Cart/dora 7 0 --reason "the item is back, ticket 4711"`,
	})
	cmd.Flags().BoolVar(&in.MayRepeat, "may-repeat", false, "send it again although it is in doubt: its target may execute it a second time")
	return cmd
}

func (a *group) sendDropCommand() *cobra.Command {
	var in sharding.DeadLetterInput
	cmd := a.deadLetterCommand(sharding.SendDropCommand, &in, &cobra.Command{
		Use: "drop TYPE/ID RECORD PLACE --reason TEXT", Short: "Drop a dead letter or pending send",
		Long: deadLetterHelp + `

Dropping it ends it without any effect. This cannot be undone.

With --may-have-run a pending send can be dropped too, for example one that fails again and again
and holds up the sender's later sends to the same target. Its target may have executed it
already, or may be executing it now: look at the target first, and afterwards. The sender is not
told, also if it waits for the answer.`,
		Example: `  roost entity sends drop Cart/dora 7 0 --reason "done by hand, ticket 4711"
  roost entity sends drop Cart/dora 9 0 --may-have-run --reason "its target always fails, ticket 4712"`,
	})
	cmd.Flags().BoolVar(&in.MayHaveRun, "may-have-run", false, "drop it although it is pending: its target may have executed it, or be executing it")
	return cmd
}

func (a *group) retrySendsCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "retry [TYPE | TYPE ID | TYPE/ID] [--to TYPE | --to TYPE/ID]", Short: "Retry failing sends now", Args: cobra.MaximumNArgs(2),
		Long: `Retries pending sends that fail at once, without waiting for the end of their pauses: of all
senders, of a sender's type, or of one sender; with --to only those to entities of a type, or to one
entity. A send that fails again waits as long as before. Sends are retried
without this command when the shard of their target is served anew, and when their target is
released from quarantine.`,
		Example: "  roost entity sends retry\n  roost entity sends retry Cart/dora\n  roost entity sends retry --to Payment",
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &adminv1.RetrySendsRequest{}
			of, target := app.Listed{Limit: 1}, app.Listed{Limit: 1}
			if err := of.Of(args); err != nil {
				return err
			}
			if to != "" {
				if err := target.Of([]string{to}); err != nil {
					return err
				}
			}
			req.Type, req.Id, req.TargetType, req.TargetId = of.Type, of.ID, target.Type, target.ID
			admin, err := a.AdminClient()
			if err != nil {
				return err
			}
			res, err := admin.RetrySends(cmd.Context(), req)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintMessage(res)
			}
			lines := []string{fmt.Sprintf("retried: %s of a sender and a target; see roost entity sends --failing", phrase.Plural(int(res.Retried), "pair"))}
			for _, s := range res.Silent {
				lines = append(lines, strings.TrimPrefix(s.Region+": ", ": ")+phrase.Printable(s.Reason))
			}
			return a.PrintLines(lines)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "only sends to entities of this TYPE, or to this TYPE/ID")
	return cmd
}

// deadLetterCommand completes a command that deals with a dead letter. The flags of in are the
// caller's.
func (a *group) deadLetterCommand(command string, in *sharding.DeadLetterInput, cmd *cobra.Command) *cobra.Command {
	b := builtin{command: command}
	cmd.Args = cobra.ExactArgs(3)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if b.typ, b.id, err = app.EntityOf(args[:1], "TYPE/ID, such as Cart/dora"); err != nil {
			return err
		}
		if in.Record, err = strconv.ParseUint(args[1], 10, 64); err != nil || in.Record == 0 {
			return app.Usage(fmt.Errorf("%q is not the number of a record, which is 1 or more", args[1]))
		}
		place, err := strconv.ParseUint(args[2], 10, 16)
		if err != nil {
			return app.Usage(fmt.Errorf("%q is not the place of a send, which is a number from 0 to %d", args[2], math.MaxUint16))
		}
		in.Place = uint16(place)
		if b.payload, err = json.Marshal(in); err != nil {
			return err
		}
		res, err := a.builtin(cmd.Context(), &b)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s/%s %d %d", b.typ, phrase.Quoted(b.id), in.Record, in.Place)
		if command == sharding.SendDropCommand {
			if a.JSON() {
				return a.PrintJSON(map[string]any{"type": b.typ, "id": b.id, "record": in.Record, "place": in.Place, "dropped": true, "region": res.Region})
			}
			_, err = fmt.Fprintf(a.Out, "%s is dropped (by %s)\n", name, res.Region)
			return err
		}
		var sent sharding.SentAgain
		if err := json.Unmarshal(res.Payload, &sent); err != nil {
			return fmt.Errorf("%s was sent again, but the region's answer cannot be read: %w", name, err)
		}
		if a.JSON() {
			return a.PrintJSON(map[string]any{"type": b.typ, "id": b.id, "record": in.Record, "place": in.Place, "sent": sent, "region": res.Region})
		}
		_, err = fmt.Fprintf(a.Out, "%s is sent again, as %s/%s %d %d (by %s)\n", name, b.typ, phrase.Quoted(b.id), sent.Record, sent.Place, res.Region)
		return err
	}
	a.builtinFlags(cmd, &b)
	return cmd
}

// listSends sets up roost entity sends without a subcommand, which lists sends.
func (a *group) listSends(cmd *cobra.Command) {
	var l app.Listed
	var dead bool
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := l.Of(args); err != nil {
			return err
		}
		if l.Failing && dead {
			return app.Usage(errors.New("--failing cannot be combined with --dead: a dead letter is not tried any more"))
		}
		admin, err := a.AdminClient()
		if err != nil {
			return err
		}
		all := &adminv1.SendsResponse{}
		err = l.Pages(func(after string, limit uint32) (int, string, error) {
			res, err := admin.Sends(cmd.Context(), &adminv1.SendsRequest{Type: l.Type, Id: l.ID, Dead: dead, After: after, Limit: limit, Failing: l.Failing})
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
			row := []any{phrase.Named(s.Type + "/" + s.Id), s.Record, s.Place, s.State, phrase.TimeOf(s.SentUnixMs), phrase.Named(s.TargetType + "/" + s.TargetId), s.Command}
			switch {
			case s.UntilUnixMs > 0:
				row = append(row, phrase.TimeOf(s.UntilUnixMs))
			case until:
				row = append(row, "-")
			}
			rows = append(rows, row)
			failures = append(failures, whatFails(s))
		}
		if a.JSON() {
			return a.PrintMessage(all)
		}
		return a.printListed(header, rows, failures,
			answered{all.Next, all.Damaged, all.Silent, all.More}, "RECORD", "PLACE")
	}
	listedFlags(&l, cmd)
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

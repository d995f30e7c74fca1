package shard

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) showCommand() *cobra.Command {
	var limit uint32
	cmd := &cobra.Command{
		Use: "show [TYPE/SHARD | TYPE/ID | TYPE ID]", Short: "Show where a shard is, and why", Args: cobra.MaximumNArgs(2),
		Example: "  roost shard show Airport/17       # a shard\n  roost shard show Airport/PHX      # the shard of an entity; also Airport PHX\n  roost shard show                  # what was decided last, about all shards",
		Long: `Shows where a shard is, since when and why. A number after TYPE/ is a shard; for an entity
whose ID is a number, write TYPE ID. It also lists the decisions about it, newest
first: who requested it, which strategy chose, and why the next best regions were not
chosen. The numbers of shards are those before the decision: of the type, and of all
types.

Decisions are kept up to coordinator.decisions_mib. A coordinator that stops stores
them first. One that crashes may lose the decisions of its last second; the list marks
where that may have happened.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &adminv1.WhyRequest{Limit: limit}
			switch len(args) {
			case 1:
				if err := whyOf(args[0], req); err != nil {
					return err
				}
			case 2:
				var err error
				if req.Type, req.Id, err = app.EntityOf(args, "TYPE ID or TYPE/ID, such as Airport/PHX"); err != nil {
					return err
				}
			}
			admin, err := a.AdminClient()
			if err != nil {
				return err
			}
			res, err := admin.Why(cmd.Context(), req)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintMessage(res)
			}
			return a.PrintLines(describeWhy(res, req.Id))
		},
	}
	cmd.Flags().Uint32Var(&limit, "limit", 20, "the largest number of decisions, at most 1000")
	return cmd
}

// whyOf takes TYPE/SHARD or TYPE/ID. A number is a shard.
func whyOf(name string, req *adminv1.WhyRequest) (err error) {
	if req.Type, req.Index, err = app.ShardOf(name); err == nil {
		return nil
	}
	typ, id, found := strings.Cut(name, "/")
	if number := strings.Trim(id, "0123456789") == ""; !found || typ == "" || number {
		return app.Usage(fmt.Errorf("%q is not a shard: write TYPE/SHARD, such as Airport/17, or for the shard of an entity TYPE/ID, or TYPE ID if the ID is a number", name))
	}
	req.Type, req.Id, err = app.EntityOf([]string{name}, "TYPE/ID, such as Airport/PHX")
	return err
}

// describeWhy describes where a shard is and why; id is the entity that was asked for, or empty.
func describeWhy(res *adminv1.WhyResponse, id string) (lines []string) {
	if s := res.Shard; s != nil {
		if id != "" {
			line := fmt.Sprintf("%s is in shard %s/%d", phrase.Quoted(s.Type+"/"+id), s.Type, s.Index)
			if res.ShardKey != "" {
				line += fmt.Sprintf(", by its key %q", res.ShardKey)
			}
			lines = append(lines, line)
		}
		lines = append(lines, whereShard(res)...)
		if p := res.Pin; p != nil {
			lines = append(lines, fmt.Sprintf("pinned to %s by %s", p.Region, phrase.Attribution(p.By, p.Reason, p.SinceUnixMs)))
		}
	}
	term := res.Term
	if len(res.Decisions) > 0 {
		lines = append(lines, "decisions, newest first:")
	} else {
		lines = append(lines, "no decision is kept")
	}
	for _, d := range res.Decisions {
		if d.Term != term {
			lines = append(lines, "  -- "+betweenTerms(d.Term, term)+" --")
			term = d.Term
		}
		lines = append(lines, describeDecision(d, res.Shard == nil)...)
		if d.Dropped > 0 {
			lines = append(lines, fmt.Sprintf("  -- %s dropped here: too many waited to be stored --", phrase.Plural(int(d.Dropped), "decision")))
		}
	}
	if res.More {
		lines = append(lines, "there are older ones; see --limit")
	}
	if res.Unread != "" {
		lines = append(lines, "the stored decisions could not be read: "+res.Unread)
	}
	if res.Dropped > 0 {
		lines = append(lines, fmt.Sprintf("since it was started, the active coordinator could not keep %s", phrase.Plural(int(res.Dropped), "decision")))
	}
	for i := range lines {
		lines[i] = phrase.Printable(lines[i])
	}
	return lines
}

// betweenTerms describes what may be missing between the decisions of a term and of a later one.
func betweenTerms(term, later uint32) string {
	if later > term+1 {
		return fmt.Sprintf("terms %d to %d ended here; if one of them ended by a crash, decisions of its last second may be missing", term, later-1)
	}
	return fmt.Sprintf("another coordinator became active after term %d; if that term ended by a crash, decisions of its last second may be missing", term)
}

// whereShard describes the position of a shard, since when it is there, and why.
func whereShard(res *adminv1.WhyResponse) (lines []string) {
	s := res.Shard
	name := fmt.Sprintf("%s/%d", s.Type, s.Index)
	switch {
	case s.Reason != "":
		lines = append(lines, fmt.Sprintf("%s is at no region, epoch %s: it is %s; see roost shard ls --type %s", name, s.Epoch, s.Reason, s.Type))
	case s.Epoch == "0.0":
		return []string{name + " is at no region: its first command will place it"}
	case s.Region == "":
		lines = append(lines, fmt.Sprintf("%s is at no region, epoch %s", name, s.Epoch))
	default:
		region, since := s.Region+" ("+s.Addr+")", ""
		if s.Region == s.Addr {
			region = s.Addr + " (" + unregisteredOwner + ")"
		}
		if res.SinceUnixMs > 0 {
			since = " since " + phrase.Moment(res.SinceUnixMs)
		}
		lines = append(lines, fmt.Sprintf("%s is at %s%s, %s, epoch %s", name, region, since, s.Phase, s.Epoch))
	}
	verb := "because"
	if s.Phase == "handing-off" {
		verb = "leaves it because"
		if res.Next != "" {
			verb = "goes to " + res.Next + " because"
		}
	}
	return append(lines, verb+" "+sharding.CauseText(res.Cause))
}

func describeDecision(d *adminv1.Decision, all bool) []string {
	what, shard := "", ""
	if all && d.Type != "" {
		shard = fmt.Sprintf(" %s/%d", d.Type, d.Index)
	}
	switch {
	case d.Kind == "given" && d.To == "":
		what = fmt.Sprintf("taken%s from %s, and given to no region", shard, cmp.Or(d.From, "no region"))
	case d.Kind == "given":
		what = fmt.Sprintf("given%s to %s", shard, d.To)
		if d.From != "" {
			what = fmt.Sprintf("given%s from %s to %s", shard, d.From, d.To)
		}
	case d.Kind == "handed-off":
		what = fmt.Sprintf("handoff%s from %s to %s", shard, d.From, cmp.Or(d.To, "a region that is chosen then"))
	case d.Kind == "plan":
		what = fmt.Sprintf("plan: %d of %s begun", d.Begun, phrase.Plural(int(d.Moves), "move"))
	default:
		what = "asked for: " + strings.TrimSpace(d.Request+shard+" "+d.To)
	}
	if d.Epoch != "" && d.Kind != "request" {
		what += ", epoch " + d.Epoch
	}
	if d.Cause != "" {
		what += ", because " + sharding.CauseText(d.Cause)
	}
	if d.By != "" {
		what += "; by " + d.By
	}
	if d.Reason != "" {
		what += ": " + d.Reason
	}
	lines := []string{"  " + phrase.Moment(d.AtUnixMs) + "  " + what}
	if d.Chosen != nil {
		strategy := ""
		if d.Strategy != "" {
			strategy = ", strategy " + d.Strategy
		}
		lines = append(lines, fmt.Sprintf("      %s had %s, %d in all%s", d.Chosen.Region, phrase.Plural(int(d.Chosen.Shards), "shard"), d.Chosen.Total, strategy))
	}
	if l := d.Loads; l != nil {
		from := ""
		if d.From != "" {
			from = fmt.Sprintf("%s %s, ", d.From, loadText(l.From, l.FromWaiting, l.FromProcessors))
		}
		lines = append(lines, fmt.Sprintf("      load in processors: the shard %s, %s%s %s", loadText(l.Shard, l.ShardWaiting, 0), from, d.To, loadText(l.To, l.ToWaiting, l.ToProcessors)))
	}
	for _, o := range d.Others {
		lines = append(lines, fmt.Sprintf("      not %s (%d, %d in all): %s", o.Region, o.Shards, o.Total, againstText(o.Against)))
	}
	if d.Unlisted > 0 {
		lines = append(lines, fmt.Sprintf("      nor %d others", d.Unlisted))
	}
	if d.Unweighed {
		lines = append(lines, "      one of very many decisions at once: the other regions are not listed")
	}
	return lines
}

// loadText writes a load in processors, its divisor in processors, and its part for waiting
// commands, unless they are 0.
func loadText(load, waiting, of float64) string {
	text := processorsText(load)
	if of > 0 {
		text += fmt.Sprintf(" of %.3g", of)
	}
	if waiting > 0 {
		text += fmt.Sprintf(" (%s for waiting)", processorsText(waiting))
	}
	return text
}

// processorsText writes a load in processors. Small loads are compared, too.
func processorsText(load float64) string {
	if load > 0 && load < 0.1 {
		return fmt.Sprintf("%.4f", load)
	}
	return fmt.Sprintf("%.2f", load)
}

// againstText explains in words what spoke against a region; against is a name from coordinator.Against.
func againstText(against string) string {
	text, known := map[string]string{
		"owner":       "it was taken from there",
		"unreachable": "unreachable, or not registered",
		"joining":     "not up yet",
		"leaving":     "leaving",
		"draining":    "being drained",
		"journal":     "does not reach the journal, or has not for long",
		"forms":       "does not read what may be stored of it",
		"capacity":    "has as many shards as its capacity",
		"pin":         "pinned elsewhere",
		"cordon":      "cordoned",
		"version":     "does not have the target version",
		"successor":   "another region was named when it began to move",
		"zone":        "its zone has its share",
		"shards":      "has more shards",
		"strategy":    "the strategy chose the other",
		"name":        "another region has its name",
	}[against]
	if !known {
		return against
	}
	return text
}

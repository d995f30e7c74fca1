package entity

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

const listedHelp = `It is read from the journal page by page, while the cluster works: what is set, or
ends, meanwhile may be in it or not. If there is more than --limit, the last line
has the value for --after; so does next in JSON.

FAILED, NEXT, REGION and WHY are shown if something of the list keeps failing: how often it
has failed in a row, when it is tried again, the region that tries it, and the last error,
including the handler's. The log of REGION has its stack, under the reference in WHY; for a
send, the log of the region of its target has it (roost shard show TARGET). The regions say so from memory; those that have not
answered are named below the list. With --failing, they say all: only what fails is
listed, first what has failed for longest. Entries in shards that no region reads are not
tried: the list marks them, and names the reason below.

The middle of long names is left out, and names with characters that are not shown are
quoted; -o json has all.`

// listedFlags adds the flags of a listing.
func listedFlags(l *app.Listed, cmd *cobra.Command) {
	cmd.Args = cobra.MaximumNArgs(2)
	cmd.Flags().Uint32Var(&l.Limit, "limit", 1000, "how many to list")
	cmd.Flags().StringVar(&l.After, "after", "", "go on where the listing before ended, as it says")
	cmd.Flags().BoolVar(&l.Failing, "failing", false, "only what keeps failing")
}

// answered holds the parts of an answer other than its rows.
type answered struct {
	next    string
	damaged []string
	silent  []*adminv1.Silent
	more    bool
}

// printListed prints a table of the rows, then notes on the rest of the answer. failures[i] is the
// failure of row i, or nil.
func (a *group) printListed(header []string, rows [][]any, failures []*adminv1.Failure, r answered, right ...string) error {
	cut := false
	if slices.ContainsFunc(failures, func(f *adminv1.Failure) bool { return f != nil }) {
		header, right = append(header, "FAILED", "NEXT", "REGION", "WHY"), append(right, "FAILED")
		for i, f := range failures {
			times, next, region, why := "-", "-", "-", "-"
			if f != nil {
				region, why = phrase.OrDash(f.Region), phrase.OneLine(f.Code+": "+f.Message)
				cut = cut || len(why) > phrase.MostShown
				if f.Times > 0 {
					times = fmt.Sprint(f.Times)
				}
				if f.NextUnixMs > 0 {
					next = phrase.TimeOf(f.NextUnixMs)
				}
			}
			rows[i] = append(rows[i], times, next, region, why)
		}
	}
	if err := a.PrintTable(header, rows, right...); err != nil {
		return err
	}
	var lines []string
	if cut {
		lines = append(lines, "what ends in … is longer; -o json has all of it")
	}
	for _, d := range r.damaged {
		lines = append(lines, "damaged: "+phrase.Printable(d))
	}
	told := map[string]bool{}
	for _, s := range r.silent {
		line := phrase.Printable(s.Reason)
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
	return a.PrintLines(lines)
}

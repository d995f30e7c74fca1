package placement

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) planCommand() *cobra.Command {
	req := &adminv1.PlanRequest{}
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "plan", Short: "Show planned moves without moving anything", Args: cobra.NoArgs,
		Example: "  roost placement plan                          # what moves next\n  roost placement plan --without region-2       # where its shards would go\n  roost placement plan --strategy load --type Airport",
		Long: `Computes a plan from what the active coordinator knows at this moment, and moves
nothing. --without takes regions to leave: all their shards go elsewhere, and it lists
the shards that no other region can be given. --strategy takes another strategy,
written as in allocation.types. The numbers of shards count the types that were
asked for. A line names the constraints that the choice breaks, because no other
region keeps them.

The real moves are decided one by one when their time comes. Shards of a region that
leaves go where --without says if nothing else changes until then; moves for balance
may differ. If less or nothing moves for balance at present, it names the reason, and
shows what would move otherwise.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout < time.Millisecond {
				return app.Usage(fmt.Errorf("--timeout is %v, must be at least 1ms", timeout))
			}
			req.TimeoutMs = timeout.Milliseconds()
			admin, err := a.AdminClient()
			if err != nil {
				return err
			}
			res, err := admin.Plan(cmd.Context(), req)
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintMessage(res)
			}
			return a.printPlan(res)
		},
	}
	cmd.Flags().StringArrayVar(&req.Without, "without", nil, "name or address of a region that is taken to leave; may be repeated")
	cmd.Flags().StringVar(&req.Strategy, "strategy", "", `the strategy that is taken instead of the configured one, such as load or "threshold max_simultaneous=5"`)
	cmd.Flags().StringVar(&req.Type, "type", "", "only this entity type")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long the plan may take, at most 10m")
	return cmd
}

func (a *group) printPlan(res *adminv1.PlanResponse) error {
	if len(res.Moves) > 0 {
		var rows [][]any
		for _, m := range res.Moves {
			why := sharding.CauseText(m.Reason)
			if m.Broken != "" {
				why += "; breaks: " + strings.ReplaceAll(m.Broken, " ", ", ")
			}
			rows = append(rows, []any{fmt.Sprintf("%s/%d", m.Type, m.Index), phrase.Named(m.From), phrase.Named(m.To), why})
		}
		if err := a.PrintTable([]string{"SHARD", "FROM", "TO", "BECAUSE"}, rows); err != nil {
			return err
		}
		if err := a.PrintLines([]string{""}); err != nil {
			return err
		}
	}
	if len(res.Regions) > 0 {
		var rows [][]any
		for _, r := range res.Regions {
			rows = append(rows, []any{phrase.Named(r.Region), r.Before, r.After, noMore(r)})
		}
		if err := a.PrintTable([]string{"REGION", "BEFORE", "AFTER", ""}, rows, "BEFORE", "AFTER"); err != nil {
			return err
		}
		if err := a.PrintLines([]string{""}); err != nil {
			return err
		}
	}
	lines := []string{phrase.Plural(len(res.Moves), "move")}
	lines = append(lines, unplacedLines(res.Unplaced)...)
	return a.PrintLines(append(lines, res.HeldBack...))
}

// noMore returns the reasons why a region is given no shards, in words.
func noMore(r *adminv1.PlannedRegion) string {
	var notes []string
	for _, note := range []struct {
		is   bool
		text string
	}{{r.Leaves, "leaves"}, {r.Cordoned, "cordoned"}, {r.Full, "full: it has its region.capacity"}} {
		if note.is {
			notes = append(notes, note.text)
		}
	}
	return strings.Join(notes, ", ")
}

// unplacedLines lists the shards that no other region can be given: a line for each type and region.
func unplacedLines(shards []*adminv1.UnplacedShard) (lines []string) {
	type of struct{ typ, region string }
	var order []of
	indexes := map[of][]uint32{}
	for _, s := range shards {
		key := of{s.Type, s.Region}
		if indexes[key] == nil {
			order = append(order, key)
		}
		indexes[key] = append(indexes[key], s.Index)
	}
	for _, key := range order {
		list := indexes[key]
		what := fmt.Sprintf("%s/%d, which", key.typ, list[0])
		if len(list) > 1 {
			what = fmt.Sprintf("%d shards of %s (%s), which", len(list), key.typ, phrase.SomeOf(list))
		}
		lines = append(lines, fmt.Sprintf("no other region can be given %s %s has", what, phrase.Named(key.region)))
	}
	return lines
}

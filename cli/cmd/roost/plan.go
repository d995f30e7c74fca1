package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/adminclient"
)

func (a *app) planCommand() *cobra.Command {
	req := &adminv1.PlanRequest{}
	var asOf string
	var moments bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "plan", Short: "Show what would move and why, without moving anything", Args: cobra.NoArgs,
		Example: "  roost plan                          # what moves next\n  roost plan --without region-2       # where its shards would go\n  roost plan --strategy load --type Airport\n  roost plan --as-of -5m              # what would have moved five minutes ago\n  roost plan --moments                # the moments that --as-of can name",
		Long: `Computes a plan from what the active coordinator knows at this moment, and moves
nothing. --without takes regions to leave: all their shards go elsewhere, and it says
which shards no other region can be given. --strategy takes another strategy,
written as in allocation.types. The numbers of shards are those of the types that
were asked for. A line names the constraints that the choice breaks, because no other
region keeps them.

The real moves are decided one by one when their time comes. Shards of a region that
leaves go where --without says if nothing else changes until then; moves for balance
may differ. If less or nothing moves for balance at present, it says why, and shows
what would move otherwise.

--as-of takes an earlier moment: a time such as 2026-01-02T15:04:05Z, or -5m for five
minutes ago. The plan is made from the newest planning moment that is not after it. The
active coordinator keeps those of its term that fit, up to 64; --moments lists them.
The strategies are those of now.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if moments && (asOf != "" || req.Type != "" || req.Strategy != "" || len(req.Without) > 0) {
				return usageError{errors.New("--moments lists all moments, and goes with no other flag of plan")}
			}
			if timeout < time.Millisecond {
				return usageError{fmt.Errorf("--timeout is %v, must be at least 1ms", timeout)}
			}
			req.TimeoutMs = timeout.Milliseconds()
			var err error
			if req.AsOfUnixMs, req.AsOfAgoMs, err = momentOf(asOf); err != nil {
				return err
			}
			admin, err := a.adminClient()
			if err != nil {
				return err
			}
			if moments {
				return a.planMoments(cmd.Context(), admin)
			}
			res, err := admin.Plan(cmd.Context(), req)
			if err != nil {
				return err
			}
			if a.json() {
				return a.printMessage(res)
			}
			return a.printPlan(res)
		},
	}
	cmd.Flags().StringArrayVar(&req.Without, "without", nil, "name or address of a region that is taken to leave; may be repeated")
	cmd.Flags().StringVar(&req.Strategy, "strategy", "", `the strategy that is taken instead of what is configured, such as load or "threshold max_simultaneous=5"`)
	cmd.Flags().StringVar(&asOf, "as-of", "", "plan as of an earlier moment: a time (2026-01-02T15:04:05Z) or how long ago (-5m)")
	cmd.Flags().BoolVar(&moments, "moments", false, "list the moments that --as-of can name")
	cmd.Flags().StringVar(&req.Type, "type", "", "only this entity type")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long the plan may take, at most 10m")
	return cmd
}

// momentOf returns the moment that a flag names: a time, or how long ago.
func momentOf(text string) (unixMs, agoMs int64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago <= -time.Millisecond {
		return 0, -ago.Milliseconds(), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil && at.UnixMilli() > 0 {
		return at.UnixMilli(), 0, nil
	}
	return 0, 0, usageError{fmt.Errorf("--as-of %q: give a time such as 2026-01-02T15:04:05Z, or how long ago, such as -5m", text)}
}

// planMoments lists the moments that a plan can be made as of.
func (a *app) planMoments(ctx context.Context, admin *adminclient.Client) error {
	res, err := admin.PlanMoments(ctx)
	if err != nil {
		return err
	}
	if a.json() {
		return a.printMessage(res)
	}
	if len(res.Moments) == 0 {
		return a.printLines([]string{"the active coordinator has no planning moment yet"})
	}
	var rows [][]any
	for _, m := range res.Moments {
		rows = append(rows, []any{momentText(m.AtUnixMs), m.Regions, m.Shards, printable(strings.Join(m.HeldBack, "; "))})
	}
	return a.printTable([]string{"MOMENT", "REGIONS", "SHARDS", ""}, rows, "REGIONS", "SHARDS")
}

// momentText writes a moment for people, in the form that flags take.
func momentText(unixMs int64) string { return time.UnixMilli(unixMs).UTC().Format(time.RFC3339) }

func (a *app) printPlan(res *adminv1.PlanResponse) error {
	if res.AsOfUnixMs > 0 {
		if err := a.printLines([]string{"as of " + momentText(res.AsOfUnixMs), ""}); err != nil {
			return err
		}
	}
	if len(res.Moves) > 0 {
		var rows [][]any
		for _, m := range res.Moves {
			why := sharding.CauseText(m.Reason)
			if m.Broken != "" {
				why += "; breaks: " + strings.ReplaceAll(m.Broken, " ", ", ")
			}
			rows = append(rows, []any{fmt.Sprintf("%s/%d", m.Type, m.Index), named(m.From), named(m.To), why})
		}
		if err := a.printTable([]string{"SHARD", "FROM", "TO", "BECAUSE"}, rows); err != nil {
			return err
		}
		if err := a.printLines([]string{""}); err != nil {
			return err
		}
	}
	if len(res.Regions) > 0 {
		var rows [][]any
		for _, r := range res.Regions {
			rows = append(rows, []any{named(r.Region), r.Before, r.After, noMore(r)})
		}
		if err := a.printTable([]string{"REGION", "BEFORE", "AFTER", ""}, rows, "BEFORE", "AFTER"); err != nil {
			return err
		}
		if err := a.printLines([]string{""}); err != nil {
			return err
		}
	}
	lines := []string{plural(len(res.Moves), "move")}
	lines = append(lines, unplacedLines(res.Unplaced)...)
	return a.printLines(append(lines, res.HeldBack...))
}

// noMore says why a region is given no shards, in words.
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

// unplacedLines says which shards no other region can be given: a line for each type and region.
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
			what = fmt.Sprintf("%d shards of %s (%s), which", len(list), key.typ, someOf(list))
		}
		lines = append(lines, fmt.Sprintf("no other region can be given %s %s has", what, named(key.region)))
	}
	return lines
}

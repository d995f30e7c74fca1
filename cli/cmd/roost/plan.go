package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *app) planCommand() *cobra.Command {
	req := &adminv1.PlanRequest{}
	cmd := &cobra.Command{
		Use: "plan", Short: "Show what would move and why, without moving anything", Args: cobra.NoArgs,
		Example: "  roost plan                          # what moves next\n  roost plan --without region-2       # where its shards would go\n  roost plan --strategy load --type Airport",
		Long: `Computes a plan from what the active coordinator knows at this moment, and moves
nothing. --without takes regions to leave: all their shards go elsewhere, and it says
which shards no other region can be given. --strategy takes another strategy,
written as in allocation.types. The numbers of shards are those of the types that
were asked for.

The real moves are decided one by one when their time comes, so they may differ.
If less or nothing moves for balance at present, it says why, and shows what would
move otherwise.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := a.adminClient()
			if err != nil {
				return err
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
	cmd.Flags().StringVar(&req.Type, "type", "", "only this entity type")
	return cmd
}

func (a *app) printPlan(res *adminv1.PlanResponse) error {
	if len(res.Moves) > 0 {
		var rows [][]any
		for _, m := range res.Moves {
			why := causeText(m.Reason)
			if m.Broken != "" {
				why += "; no region keeps: " + strings.ReplaceAll(m.Broken, " ", ", ")
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
			note := ""
			if r.Leaves {
				note = "leaves"
			}
			rows = append(rows, []any{named(r.Region), r.Before, r.After, note})
		}
		if err := a.printTable([]string{"REGION", "BEFORE", "AFTER", ""}, rows, "BEFORE", "AFTER"); err != nil {
			return err
		}
		if err := a.printLines([]string{""}); err != nil {
			return err
		}
	}
	lines := []string{plural(len(res.Moves), "move")}
	for _, s := range res.Unplaced {
		lines = append(lines, fmt.Sprintf("no other region can be given %s/%d, which %s has", s.Type, s.Index, named(s.Region)))
	}
	return a.printLines(append(lines, res.HeldBack...))
}

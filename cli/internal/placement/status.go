package placement

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/phrase"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) statusCommand() *cobra.Command {
	var typ, region string
	var all bool
	cmd := &cobra.Command{
		Use: "status", Short: "List requests of operators about placement", Args: cobra.NoArgs,
		Long: `Lists the drains, cordons, freezes, pins and moves that operators have asked for, who has asked, when and
why. A move is listed while it is in progress. It also says if moves are held back because commands
are slow.

More than five pins of one type to one region, by the same requester and for the same reason, are one
line: --pins lists each of them.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := a.AdminClient()
			if err != nil {
				return err
			}
			res, err := admin.Steering(cmd.Context(), typ)
			if err != nil {
				return err
			}
			if region != "" {
				aboutRegion(res, region)
			}
			if a.JSON() {
				return a.PrintMessage(res)
			}
			return a.printSteering(res, all)
		},
	}
	cmd.Flags().StringVar(&typ, "type", "", "pins and moves of this entity type only")
	cmd.Flags().StringVar(&region, "region", "", "only what is about the region with this name, and no freeze")
	cmd.Flags().BoolVar(&all, "pins", false, "list each pin in a line of its own")
	return cmd
}

// aboutRegion leaves only what is about one region.
func aboutRegion(res *adminv1.SteeringResponse, name string) {
	res.Freeze, res.Brake = nil, nil
	res.Drains = slices.DeleteFunc(res.Drains, func(d *adminv1.Drain) bool { return d.Region != name })
	res.Cordons = slices.DeleteFunc(res.Cordons, func(c *adminv1.Cordon) bool { return c.Region != name })
	res.Pins = slices.DeleteFunc(res.Pins, func(p *adminv1.PinnedShard) bool { return p.Region != name })
	res.Moves = slices.DeleteFunc(res.Moves, func(m *adminv1.MovingShard) bool { return m.Region != name })
}

// mostPinLines is the number of pins of one type to one region, by the same requester and for the same
// reason, that are listed one by one at most.
const mostPinLines = 5

// pinRows lists pins. If there are many alike, they are one row, unless each is wanted.
func pinRows(pins []*adminv1.PinnedShard, each bool) (rows [][]any) {
	type kind struct{ typ, region, by, reason string }
	of := func(p *adminv1.PinnedShard) kind { return kind{p.Type, p.Region, p.By, p.Reason} }
	alike := map[kind][]*adminv1.PinnedShard{}
	for _, p := range pins {
		alike[of(p)] = append(alike[of(p)], p)
	}
	for _, p := range pins {
		list := alike[of(p)]
		if len(list) <= mostPinLines || each {
			state := "there"
			if p.Owner == "" {
				state = "at no region"
			} else if p.Owner != p.Region {
				state = "at " + p.Owner
			}
			rows = append(rows, []any{"pin", p.Region, fmt.Sprintf("%s/%d", p.Type, p.Index), state, phrase.OrDash(p.By), phrase.Since(p.SinceUnixMs), phrase.OrDash(p.Reason)})
			continue
		}
		if list[0] != p {
			continue
		}
		there, newest := 0, int64(0)
		for _, x := range list {
			if x.Owner == x.Region {
				there++
			}
			newest = max(newest, x.SinceUnixMs)
		}
		state := fmt.Sprintf("%d shards, all there", len(list))
		if there < len(list) {
			state = fmt.Sprintf("%d shards, %d there", len(list), there)
		}
		rows = append(rows, []any{"pins", p.Region, p.Type, state, phrase.OrDash(p.By), phrase.Since(newest), phrase.OrDash(p.Reason)})
	}
	return rows
}

func (a *group) printSteering(res *adminv1.SteeringResponse, eachPin bool) error {
	var rows [][]any
	for _, d := range res.Drains {
		rows = append(rows, []any{"drain", d.Region, "-", phrase.Plural(int(d.Shards), "shard") + " left", phrase.OrDash(d.By), phrase.Since(d.SinceUnixMs), phrase.OrDash(d.Reason)})
	}
	for _, c := range res.Cordons {
		state := phrase.Plural(int(c.Shards), "shard")
		if !c.Here {
			state = "not here"
		} else if c.Given > 0 {
			state += fmt.Sprintf(", %d given since", c.Given)
		}
		rows = append(rows, []any{"cordon", c.Region, "-", state, phrase.OrDash(c.By), phrase.Since(c.SinceUnixMs), phrase.OrDash(c.Reason)})
	}
	rows = append(rows, pinRows(res.Pins, eachPin)...)
	for _, v := range res.Moves {
		rows = append(rows, []any{"move", v.Region, fmt.Sprintf("%s/%d", v.Type, v.Index), "in progress", phrase.OrDash(v.By), phrase.Since(v.SinceUnixMs), phrase.OrDash(v.Reason)})
	}
	var lines []string
	if len(rows) > 0 {
		if err := a.PrintTable([]string{"REQUEST", "REGION", "SHARD", "STATE", "BY", "SINCE", "REASON"}, rows); err != nil {
			return err
		}
	} else {
		lines = append(lines, "nothing is drained, cordoned, pinned or moved by an operator")
	}
	if res.Freeze != nil {
		lines = append(lines, phrase.Freeze(res.Freeze))
	}
	if res.Brake != nil {
		lines = append(lines, phrase.Brake(res.Brake))
	}
	if lines == nil {
		return nil
	}
	return a.PrintLines(lines)
}

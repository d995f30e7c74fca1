package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/adminclient"
)

// steer is what all commands have by which operators steer placement.
type steer struct {
	reason  string
	dryRun  bool
	ahead   bool
	timeout time.Duration
}

// reasonHelp describes --reason of all requests.
const reasonHelp = "why, for those who see it later; kept and shown with who asked"

func (s *steer) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.reason, "reason", "", reasonHelp)
	cmd.Flags().BoolVar(&s.dryRun, "dry-run", false, "only say what would happen; change nothing")
	cmd.Flags().DurationVar(&s.timeout, "timeout", 10*time.Second, "how long to wait until it is stored")
}

func (s *steer) aheadFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.ahead, "ahead", false, "also for a name that no region has now")
}

// steer asks the coordinator again and again until it has stored what is wanted: a coordinator
// that ended has perhaps not stored it. done returns the text to print then.
func (a *app) steer(ctx context.Context, s *steer, ask func(context.Context, *adminclient.Client) (*adminv1.SteerResponse, error), done func(*adminv1.SteerResponse) string) error {
	admin, err := a.adminClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if s.dryRun {
		res, err := ask(ctx, admin)
		if err != nil {
			return err
		}
		return a.printSteer(res, true, done(res))
	}
	res, err := adminclient.UntilStored(ctx, func(ctx context.Context) (*adminv1.SteerResponse, error) { return ask(ctx, admin) })
	if err != nil {
		text := "it is not known whether this is stored; run it again"
		var refused twirp.Error
		if errors.As(err, &refused) {
			text += ". The last answer was: " + refused.Msg()
		}
		return ended(ctx, err, text)
	}
	return a.printSteer(res, false, done(res))
}

func (a *app) printSteer(res *adminv1.SteerResponse, dryRun bool, text string) error {
	if a.json() {
		return a.printMessage(res)
	}
	switch {
	case res.Already:
		text += soBefore
	case dryRun:
		text = afterwards + text
	}
	return a.printLines(append([]string{text}, res.Remarks...))
}

func (a *app) cordonCommand() *cobra.Command {
	s := &steer{}
	cmd := &cobra.Command{
		Use: "cordon REGION", Short: "Give a region no more shards", Args: oneName,
		Long: `Has the region with this name get no more shards. It keeps those that it has, until
they move for another reason; roost drain moves them off. It is given a shard all
the same if no other region can be, or if the shard is pinned to it; roost steering
shows how many it was given.

The cordon is about the name: it outlives the region's process, and the
coordinators. roost uncordon ends it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.cordon(cmd.Context(), s, args[0], false)
		},
	}
	s.flags(cmd)
	s.aheadFlag(cmd)
	return cmd
}

func (a *app) uncordonCommand() *cobra.Command {
	s := &steer{}
	cmd := &cobra.Command{
		Use: "uncordon REGION", Short: "Let a region get shards again", Args: oneName,
		Long: "Ends the cordon of a region, see roost cordon. Shards move to it as the strategy sees fit.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.cordon(cmd.Context(), s, args[0], true)
		},
	}
	s.flags(cmd)
	return cmd
}

func (a *app) cordon(ctx context.Context, s *steer, region string, lift bool) error {
	return a.steer(ctx, s, func(ctx context.Context, admin *adminclient.Client) (*adminv1.SteerResponse, error) {
		return admin.Cordon(ctx, &adminv1.CordonRequest{Region: region, Lift: lift, Ahead: s.ahead, DryRun: s.dryRun, By: whoAmI(), Reason: s.reason})
	}, func(res *adminv1.SteerResponse) string {
		if lift {
			return res.Region + " is not cordoned"
		}
		return res.Region + " is cordoned: it gets no more shards"
	})
}

func (a *app) freezeCommand() *cobra.Command {
	s := &steer{}
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "freeze", Short: "Let no shard move unless it has to", Args: cobra.NoArgs,
		Long: `Stops every move of a shard that can stay where it is: moves for balance, moves of
pins, and roost move. Drains go on, and shards of regions that leave or are lost
still get other places. roost thaw ends it, or the time that --for gives.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("for") && lasts < time.Millisecond { // 0 ms mean that it has no end
				return usageError{fmt.Errorf("--for is %v, must be at least 1ms", lasts)}
			}
			return a.freeze(cmd.Context(), s, false, lasts)
		},
	}
	cmd.Flags().DurationVar(&lasts, "for", 0, "end it after this time; not given: when you thaw")
	s.flags(cmd)
	return cmd
}

func (a *app) thawCommand() *cobra.Command {
	s := &steer{}
	cmd := &cobra.Command{
		Use: "thaw", Short: "Let shards move again", Args: cobra.NoArgs,
		Long: "Ends what roost freeze began.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.freeze(cmd.Context(), s, true, 0) },
	}
	s.flags(cmd)
	return cmd
}

func (a *app) freeze(ctx context.Context, s *steer, thaw bool, lasts time.Duration) error {
	req := &adminv1.FreezeRequest{Thaw: thaw, ForMs: lasts.Milliseconds(), DryRun: s.dryRun, By: whoAmI(), Reason: s.reason}
	return a.steer(ctx, s, func(ctx context.Context, admin *adminclient.Client) (*adminv1.SteerResponse, error) {
		res, err := admin.Freeze(ctx, req)
		if err == nil && res.UntilUnixMs != 0 { // the next attempt asks for the same
			req.ForMs, req.UntilUnixMs = 0, res.UntilUnixMs
		}
		return res, err
	}, func(res *adminv1.SteerResponse) string {
		if thaw {
			return "nothing is frozen"
		}
		return "frozen: no shard moves unless it has to" + untilText(res.UntilUnixMs)
	})
}

func untilText(ms int64) string {
	if ms == 0 {
		return ", until roost thaw"
	}
	return ", until " + momentText(ms)
}

// sinceText writes since when something is so; "-" if that is not known.
func sinceText(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return momentText(ms)
}

func describeFreeze(f *adminv1.Freeze) string {
	return "frozen: no shard moves unless it has to" + untilText(f.UntilUnixMs) + "; " + attribution(f.By, f.Reason, f.SinceUnixMs)
}

func describeBrake(b *adminv1.Brake) string {
	text := "braked since " + momentText(b.SinceUnixMs) + ": " + b.Why
	if b.NextUnixMs > 0 {
		text += "; one is tried at " + momentText(b.NextUnixMs)
	}
	return text
}

// attribution says who asked for something, when, and why.
func attribution(by, reason string, since int64) string {
	text := orDash(by) + ", " + sinceText(since)
	if reason != "" {
		text += ": " + reason
	}
	return printable(text)
}

func (a *app) pinCommand() *cobra.Command {
	s := &steer{}
	cmd := &cobra.Command{
		Use: "pin TYPE/SHARD… REGION", Short: "Have shards be at a certain region", Args: shardsAndRegion,
		Example: "  roost where Airport PHX          # its shard is 17\n  roost pin Airport/17 region-2 --reason \"near its caller\"",
		Long: `Has shards be at the region with this name whenever it can be given them: they move
there, and while it is away other regions have them. roost unpin ends it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			region := args[len(args)-1]
			if region == "" {
				return usageError{errors.New("the name of the region is empty; to end a pin, use roost unpin")}
			}
			return a.pin(cmd.Context(), s, args[:len(args)-1], region)
		},
	}
	s.flags(cmd)
	s.aheadFlag(cmd)
	return cmd
}

func (a *app) unpinCommand() *cobra.Command {
	s := &steer{}
	cmd := &cobra.Command{
		Use: "unpin TYPE/SHARD…", Short: "Let shards be anywhere again", Args: cobra.MinimumNArgs(1),
		Long: "Ends what roost pin began. The shards move as the strategy sees fit.",
		RunE: func(cmd *cobra.Command, args []string) error { return a.pin(cmd.Context(), s, args, "") },
	}
	s.flags(cmd)
	return cmd
}

func (a *app) pin(ctx context.Context, s *steer, shards []string, region string) error {
	req := &adminv1.PinRequest{Ahead: s.ahead, DryRun: s.dryRun, By: whoAmI(), Reason: s.reason}
	for _, text := range shards {
		typ, index, err := shardOf(text)
		if err != nil {
			return err
		}
		req.Pins = append(req.Pins, &adminv1.Pin{Type: typ, Index: index, Region: region})
	}
	return a.steer(ctx, s, func(ctx context.Context, admin *adminclient.Client) (*adminv1.SteerResponse, error) {
		return admin.Pin(ctx, req)
	}, func(res *adminv1.SteerResponse) string {
		what := strings.Join(shards, " ")
		if len(shards) > 4 {
			what = plural(len(shards), "shard")
		}
		verb := map[bool]string{true: "is", false: "are"}[len(shards) == 1]
		if region == "" {
			return fmt.Sprintf("%s %s not pinned", what, verb)
		}
		return fmt.Sprintf("%s %s pinned to %s", what, verb, res.Region)
	})
}

// shardsAndRegion checks the arguments of roost pin.
func shardsAndRegion(_ *cobra.Command, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("one or more shards and a region are needed, %s given", plural(len(args), "argument"))
	}
	return nil
}

// shardAndRegion checks the arguments of roost move.
func shardAndRegion(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("a shard, written TYPE/SHARD, and a region are needed, %s given; roost where finds the shard of an entity", plural(len(args), "argument"))
	}
	return nil
}

// shardOf parses TYPE/SHARD.
func shardOf(text string) (typ string, index uint32, err error) {
	typ, number, ok := strings.Cut(text, "/")
	n, bad := strconv.ParseUint(number, 10, 32)
	if !ok || bad != nil || sharding.CheckEntityType("type", sharding.EntityType(typ)) != nil {
		return "", 0, usageError{fmt.Errorf("%q is no shard: write TYPE/SHARD, such as Airport/17; roost where finds the shard of an entity", text)}
	}
	return typ, uint32(n), nil
}

func (a *app) moveCommand() *cobra.Command {
	s := &steer{}
	cmd := &cobra.Command{
		Use: "move TYPE/SHARD REGION", Short: "Move a shard to a region once", Args: shardAndRegion,
		Long: `Moves a shard to a region now, by a handoff: its owner finishes what it has accepted. The
strategy may move it on later; roost pin keeps it where you want it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			typ, index, err := shardOf(args[0])
			if err != nil {
				return err
			}
			return a.steer(cmd.Context(), s, func(ctx context.Context, admin *adminclient.Client) (*adminv1.SteerResponse, error) {
				return admin.Move(ctx, &adminv1.MoveRequest{Type: typ, Index: index, Region: args[1], DryRun: s.dryRun, By: whoAmI(), Reason: s.reason})
			}, func(res *adminv1.SteerResponse) string {
				return fmt.Sprintf("%s goes to %s", args[0], res.Region)
			})
		},
	}
	s.flags(cmd)
	return cmd
}

func (a *app) steeringCommand() *cobra.Command {
	var typ, region string
	var all bool
	cmd := &cobra.Command{
		Use: "steering", Short: "List drains, cordons, pins and other requests about placement", Args: cobra.NoArgs,
		Long: `Lists what roost drain, cordon, freeze, pin and move have asked for, who has asked, when and
why. A move is listed while it is in progress. It also says if moves are held back because commands
are slow.

More than five pins of one type to one region, by the same requester and for the same reason, are one
line: --pins lists each of them.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := a.adminClient()
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
			if a.json() {
				return a.printMessage(res)
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

// mostPinLines is how many pins of one type to one region, by the same requester and for the same reason,
// are listed one by one.
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
			rows = append(rows, []any{"pin", p.Region, fmt.Sprintf("%s/%d", p.Type, p.Index), state, orDash(p.By), sinceText(p.SinceUnixMs), orDash(p.Reason)})
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
		rows = append(rows, []any{"pins", p.Region, p.Type, state, orDash(p.By), sinceText(newest), orDash(p.Reason)})
	}
	return rows
}

func (a *app) printSteering(res *adminv1.SteeringResponse, eachPin bool) error {
	var rows [][]any
	for _, d := range res.Drains {
		rows = append(rows, []any{"drain", d.Region, "-", plural(int(d.Shards), "shard") + " left", orDash(d.By), sinceText(d.SinceUnixMs), orDash(d.Reason)})
	}
	for _, c := range res.Cordons {
		state := plural(int(c.Shards), "shard")
		if !c.Here {
			state = "not here"
		} else if c.Given > 0 {
			state += fmt.Sprintf(", %d given since", c.Given)
		}
		rows = append(rows, []any{"cordon", c.Region, "-", state, orDash(c.By), sinceText(c.SinceUnixMs), orDash(c.Reason)})
	}
	rows = append(rows, pinRows(res.Pins, eachPin)...)
	for _, v := range res.Moves {
		rows = append(rows, []any{"move", v.Region, fmt.Sprintf("%s/%d", v.Type, v.Index), "in progress", orDash(v.By), sinceText(v.SinceUnixMs), orDash(v.Reason)})
	}
	var lines []string
	if len(rows) > 0 {
		if err := a.printTable([]string{"REQUEST", "REGION", "SHARD", "STATE", "BY", "SINCE", "REASON"}, rows); err != nil {
			return err
		}
	} else {
		lines = append(lines, "nothing is drained, cordoned, pinned or moved by an operator")
	}
	if res.Freeze != nil {
		lines = append(lines, describeFreeze(res.Freeze))
	}
	if res.Brake != nil {
		lines = append(lines, describeBrake(res.Brake))
	}
	if lines == nil {
		return nil
	}
	return a.printLines(lines)
}

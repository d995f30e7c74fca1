package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

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

func (s *steer) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.reason, "reason", "", "why, for those who see it later; kept and shown with who asked")
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
	switch {
	case err == nil:
		return a.printSteer(res, false, done(res))
	case ctx.Err() == nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return timeoutError{errors.New("it is not known whether this is stored; run it again")}
	}
	return errInterrupted
}

func (a *app) printSteer(res *adminv1.SteerResponse, dryRun bool, text string) error {
	if a.json() {
		return a.printMessage(res)
	}
	switch {
	case res.Already:
		text += "; it was so before"
	case dryRun:
		text = "would change: " + text
	}
	return a.printLines(append([]string{text}, res.Remarks...))
}

func (a *app) cordonCommand() *cobra.Command {
	s := &steer{}
	cmd := &cobra.Command{
		Use: "cordon REGION", Short: "Give a region no more shards", Args: oneName,
		Long: `Has the region with this name get no more shards. It keeps those that it has, until
they move for another reason; roost drain moves them off. It is given a shard all
the same if no other region can be; roost steering shows how many it was given.

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
		Use: "freeze", Short: "Let nothing move that need not", Args: cobra.NoArgs,
		Long: `Stops all moves of shards that need not be: those for balance, those of pins, and
roost move. Drains go on, and shards of regions that leave or are lost still get
other places. roost thaw ends it, or the time that --for gives.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("for") && lasts <= 0 {
				return usageError{fmt.Errorf("--for is %v, must be above 0", lasts)}
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
		return "frozen: nothing moves that need not" + untilText(res.UntilUnixMs)
	})
}

func untilText(ms int64) string {
	if ms == 0 {
		return ", until roost thaw"
	}
	return ", until " + localTime(ms)
}

// localTime writes a moment for people.
func localTime(ms int64) string { return time.UnixMilli(ms).Format(time.DateTime) }

func describeFreeze(f *adminv1.Freeze) string {
	return "frozen: nothing moves that need not" + untilText(f.UntilUnixMs) + "; " + saidBy(f.By, f.Reason, f.SinceUnixMs)
}

func describeBrake(b *adminv1.Brake) string {
	text := "braked since " + localTime(b.SinceUnixMs) + ": " + b.Why
	if b.NextUnixMs > 0 {
		text += "; one is tried at " + localTime(b.NextUnixMs)
	}
	return text
}

func saidBy(by, reason string, since int64) string {
	text := orDash(by) + ", " + localTime(since)
	if reason != "" {
		text += ": " + reason
	}
	return text
}

func (a *app) pinCommand() *cobra.Command {
	s := &steer{}
	cmd := &cobra.Command{
		Use: "pin TYPE/SHARD… REGION", Short: "Have shards be at a certain region", Args: cobra.MinimumNArgs(2),
		Example: "  roost where Airport PHX          # its shard is 17\n  roost pin Airport/17 region-2 --reason \"near its caller\"",
		Long: `Has shards be at the region with this name whenever it can be given them: they move
there, and while it is away other regions have them. roost unpin ends it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.pin(cmd.Context(), s, args[:len(args)-1], args[len(args)-1])
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
		Use: "move TYPE/SHARD REGION", Short: "Move a shard to a region once", Args: cobra.ExactArgs(2),
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
	var typ string
	cmd := &cobra.Command{
		Use: "steering", Short: "List cordons, pins and other wishes about placement", Args: cobra.NoArgs,
		Long: `Lists what roost cordon, freeze, pin and move have asked for, who has asked, when and
why. A move is listed while it is under way. It also says if moves are held back because commands
are slow.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := a.adminClient()
			if err != nil {
				return err
			}
			res, err := admin.Steering(cmd.Context(), typ)
			if err != nil {
				return err
			}
			if a.json() {
				return a.printMessage(res)
			}
			return a.printSteering(res)
		},
	}
	cmd.Flags().StringVar(&typ, "type", "", "pins and moves of this entity type only")
	return cmd
}

func (a *app) printSteering(res *adminv1.SteeringResponse) error {
	var rows [][]any
	for _, c := range res.Cordons {
		state := plural(int(c.Shards), "shard")
		if !c.Here {
			state = "not here"
		} else if c.Given > 0 {
			state += fmt.Sprintf(", %d given since: no other region could be", c.Given)
		}
		rows = append(rows, []any{"cordon", c.Region, "-", state, orDash(c.By), localTime(c.SinceUnixMs), orDash(c.Reason)})
	}
	for _, p := range res.Pins {
		state := "there"
		if p.Owner == "" {
			state = "at no region"
		} else if p.Owner != p.Region {
			state = "at " + p.Owner
		}
		rows = append(rows, []any{"pin", p.Region, fmt.Sprintf("%s/%d", p.Type, p.Index), state, orDash(p.By), localTime(p.SinceUnixMs), orDash(p.Reason)})
	}
	for _, v := range res.Moves {
		rows = append(rows, []any{"move", v.Region, fmt.Sprintf("%s/%d", v.Type, v.Index), "under way", orDash(v.By), localTime(v.SinceUnixMs), orDash(v.Reason)})
	}
	var lines []string
	if len(rows) > 0 {
		if err := a.printTable([]string{"WISH", "REGION", "SHARD", "STATE", "BY", "SINCE", "REASON"}, rows); err != nil {
			return err
		}
	} else {
		lines = append(lines, "nothing is cordoned, pinned or moved by an operator")
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

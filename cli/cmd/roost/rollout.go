package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/adminclient"
)

func (a *app) rolloutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rollout", Short: "Show which versions of your code run, and what is left to move", Args: cobra.NoArgs,
		Long: `Shows the versions of the regions' code (app.version), their regions and shards,
which version is the target of a rollout, what regions of one version store that
those of another do not read, and shards that no region can be given.

A version becomes the target when its first region registers, unless it was seen
before; roost rollout target sets it, to go back for instance. While a rollout is
on, shards that need a place go to regions of the target, and nothing moves for
balance.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := a.adminClient()
			if err != nil {
				return err
			}
			res, err := admin.Rollout(cmd.Context())
			if err != nil {
				return err
			}
			if a.json() {
				return a.printMessage(res)
			}
			return a.printRollout(res, time.Now())
		},
	}
	cmd.AddCommand(a.targetCommand(), a.lookCommand())
	return cmd
}

func (a *app) printRollout(res *adminv1.RolloutResponse, now time.Time) error {
	var rows [][]any
	for _, v := range res.Versions {
		target := ""
		if v.Target {
			target = "target"
		}
		rows = append(rows, []any{orDash(v.Version), orDash(target), v.Shards, v.Moving, strings.Join(v.Regions, ",")})
	}
	if err := a.printTable([]string{"VERSION", "ROLLOUT", "SHARDS", "MOVING", "REGIONS"}, rows, "SHARDS", "MOVING"); err != nil {
		return err
	}
	var lines []string
	for _, c := range res.CannotRead {
		if c.Reader == c.Writer {
			lines = append(lines, fmt.Sprintf("regions of %s run different code: not all of them read %s %s; give every build a version of its own (app.version)", orDash(c.Reader), c.Type, strings.Join(c.Forms, "; ")))
			continue
		}
		lines = append(lines, fmt.Sprintf("%s does not read what %s stores: %s %s", orDash(c.Reader), orDash(c.Writer), c.Type, strings.Join(c.Forms, "; ")))
	}
	for _, u := range res.Unreadable {
		lines = append(lines, describeUnreadable(u))
	}
	left := plural(int(res.Left), "shard") + " left to move when their regions leave"
	if res.Unread > 0 {
		left = fmt.Sprintf("%s, and %d that no region of %s reads", plural(int(res.Left-min(res.Left, res.Unread)), "shard")+" left to move when their regions leave", res.Unread, res.Target)
	}
	frozen := time.Duration(res.FrozenMs) * time.Millisecond
	switch {
	case res.Target == "":
		lines = append(lines, "no region has said its version: set app.version, or stamp it on the binary")
	case !res.On && len(res.Versions) == 1 && res.Versions[0].Target:
		lines = append(lines, "no rollout is on: all regions run "+res.Target)
	case len(res.Versions) == 0:
		lines = append(lines, "no region is registered with the coordinator (yet); the target is "+res.Target)
	case !res.On && res.NextTarget != "":
		lines = append(lines, fmt.Sprintf("no rollout is on: no region runs the target %s; %s becomes the target at %s if none comes, or now with roost rollout target %s",
			res.Target, res.NextTarget, now.Add(time.Duration(res.NextTargetMs)*time.Millisecond).Format(time.TimeOnly), res.NextTarget))
	case !res.On:
		lines = append(lines, fmt.Sprintf("no rollout is on: no region runs the target %s; roost rollout target sets another", res.Target))
	case frozen > 0:
		lines = append(lines, fmt.Sprintf("%s; nothing moves for balance until %s if no region comes or goes",
			left, now.Add(frozen).Format(time.TimeOnly)))
	default:
		still := fmt.Sprintf("the rollout stands still: %s are not with %s, and shards are balanced over all versions", plural(int(res.Left), "shard"), res.Target)
		if res.Unread > 0 {
			still += fmt.Sprintf(". No region of %s reads %d of them", res.Target, res.Unread)
		}
		lines = append(lines, still)
	}
	return a.printLines(lines)
}

func (a *app) targetCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "target VERSION", Short: "Make a version the target of a rollout", Args: oneName,
		Long: `Makes a version that runs, or ran before, the target of a rollout: to go back to it,
or to go on with one that was gone back from. From then on shards that need a place go
to its regions. Nothing moves by this alone: replace the regions as well.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := sharding.CheckText("the version", args[0], sharding.MaxTypeLen); err != nil {
				return usageError{err}
			}
			return a.setTarget(ctx, args[0])
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait until it is stored")
	return cmd
}

// setTarget repeats the request, because a coordinator that ended has perhaps not stored it.
func (a *app) setTarget(ctx context.Context, version string) error {
	admin, err := a.adminClient()
	if err != nil {
		return err
	}
	before := ""
	res, err := adminclient.Until(ctx, func(ctx context.Context) (*adminv1.SetTargetResponse, error) {
		return admin.SetTarget(ctx, version, whoAmI())
	}, func(res *adminv1.SetTargetResponse) bool {
		before = cmp.Or(before, res.Before)
		return res.Stored
	})
	if err != nil {
		return ended(ctx, err, fmt.Sprintf("it is not known whether %s is stored as the target; run it again", version))
	}
	res.Before = before
	return a.printTarget(res)
}

func (a *app) printTarget(res *adminv1.SetTargetResponse) error {
	if a.json() {
		return a.printMessage(res)
	}
	was, regions := "", "no region runs it yet, see what it reads with roost journal check"
	if res.NextTarget != "" {
		regions += fmt.Sprintf("; if none comes within %s, %s becomes the target", (time.Duration(res.NextTargetMs) * time.Millisecond).Round(time.Second), res.NextTarget)
	}
	if res.Before != "" && res.Before != res.Target {
		was = fmt.Sprintf(" (it was %s)", res.Before)
	}
	if len(res.Regions) > 0 {
		regions = "it runs in " + strings.Join(res.Regions, ",")
	}
	lines := []string{fmt.Sprintf("the target is %s%s; %s", res.Target, was, regions)}
	if res.Unread > 0 {
		lines = append(lines, fmt.Sprintf("no region of %s reads all that may be stored in %s of other versions: as long as one of those runs it keeps them, and then their commands are refused", res.Target, plural(int(res.Unread), "shard")))
	}
	return a.printLines(lines)
}

// whoAmI names the user and the host for the coordinator's log, as far as known and fit for it.
func whoAmI() string {
	name := "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	if sharding.CheckText("by", name, sharding.MaxTypeLen) != nil {
		return "?"
	}
	return name
}

package region

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/adminclient"
)

func (a *group) cordonCommand() *cobra.Command {
	s := &app.Steer{}
	cmd := &cobra.Command{
		Use: "cordon REGION", Short: "Give a region no more shards", Args: app.OneName,
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
	s.Flags(cmd)
	s.AheadFlag(cmd)
	return cmd
}

func (a *group) uncordonCommand() *cobra.Command {
	s := &app.Steer{}
	cmd := &cobra.Command{
		Use: "uncordon REGION", Short: "Let a region get shards again", Args: app.OneName,
		Long: "Ends the cordon of a region, see roost cordon. Shards move to it as the strategy sees fit.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.cordon(cmd.Context(), s, args[0], true)
		},
	}
	s.Flags(cmd)
	return cmd
}

func (a *group) cordon(ctx context.Context, s *app.Steer, region string, lift bool) error {
	return a.Steer(ctx, s, func(ctx context.Context, admin *adminclient.Client) (*adminv1.SteerResponse, error) {
		return admin.Cordon(ctx, &adminv1.CordonRequest{Region: region, Lift: lift, Ahead: s.Ahead, DryRun: s.DryRun, By: app.WhoAmI(), Reason: s.Reason})
	}, func(res *adminv1.SteerResponse) string {
		if lift {
			return res.Region + " is not cordoned"
		}
		return res.Region + " is cordoned: it gets no more shards"
	})
}

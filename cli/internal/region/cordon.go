package region

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) cordonCommand() *cobra.Command {
	s := &app.Steer{}
	cmd := &cobra.Command{
		Use: "cordon REGION", Short: "Stop placing shards on a region", Args: app.OneName,
		Long: `Stops placing new shards on the region with this name. It keeps those that it has, until
they move for another reason; roost region drain moves them off. It is given a shard all
the same if no other region can be, or if the shard is pinned to it; roost placement status
shows how many it was given.

The cordon is about the name: it outlives the region's process, and the
coordinators. --undo ends it; then shards move to the region as the strategy sees fit.`,
		Example: "  roost region cordon region-2 --reason \"new disk\"\n  roost region cordon region-2 --undo",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.cordon(cmd.Context(), s, args[0])
		},
	}
	s.Flags(cmd)
	s.AheadFlag(cmd)
	s.UndoFlag(cmd, "let the region get shards again")
	return cmd
}

func (a *group) cordon(ctx context.Context, s *app.Steer, region string) error {
	return a.Steer(ctx, s, func(ctx context.Context, admin *adminclient.Client) (*adminv1.SteerResponse, error) {
		return admin.Cordon(ctx, &adminv1.CordonRequest{Region: region, Lift: s.Undo, Ahead: s.Ahead, DryRun: s.DryRun, By: app.WhoAmI(), Reason: s.Reason})
	}, func(res *adminv1.SteerResponse) string {
		if s.Undo {
			return res.Region + " is not cordoned"
		}
		return res.Region + " is cordoned: it gets no more shards"
	})
}

package shard

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) moveCommand() *cobra.Command {
	s := &app.Steer{}
	cmd := &cobra.Command{
		Use: "move TYPE/SHARD REGION", Short: "Move a shard to a region", Args: shardAndRegion,
		Long: `Moves a shard to a region now, by a handoff: its owner finishes accepted commands. The
strategy may move it on later; roost shard pin keeps it where you want it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			typ, index, err := app.ShardOf(args[0])
			if err != nil {
				return err
			}
			return a.Steer(cmd.Context(), s, func(ctx context.Context, admin *adminclient.Client) (*adminv1.SteerResponse, error) {
				return admin.Move(ctx, &adminv1.MoveRequest{Type: typ, Index: index, Region: args[1], DryRun: s.DryRun, By: app.WhoAmI(), Reason: s.Reason})
			}, func(res *adminv1.SteerResponse) string {
				return fmt.Sprintf("%s goes to %s", args[0], res.Region)
			})
		},
	}
	s.Flags(cmd)
	return cmd
}

// shardAndRegion checks the arguments of roost shard move.
func shardAndRegion(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("a shard, written TYPE/SHARD, and a region are needed, %s given; roost shard show finds the shard of an entity", phrase.Plural(len(args), "argument"))
	}
	return nil
}

package placement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) freezeCommand() *cobra.Command {
	s := &app.Steer{}
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "freeze", Short: "Freeze rebalancing", Args: cobra.NoArgs,
		Long: `Stops every move of a shard that can stay where it is: moves for balance, moves of
pins, and roost shard move. Drains go on, and shards of regions that leave or are lost
still get other places. --undo ends it, or the time that --for gives.`,
		Example: "  roost placement freeze --for 1h --reason migration\n  roost placement freeze --undo",
		RunE: func(cmd *cobra.Command, _ []string) error {
			set := cmd.Flags().Changed("for")
			if set && s.Undo {
				return app.Usage(errors.New("--undo cannot be combined with --for"))
			}
			if set && lasts < time.Millisecond { // 0 ms mean that it has no end
				return app.Usage(fmt.Errorf("--for is %v, must be at least 1ms", lasts))
			}
			return a.freeze(cmd.Context(), s, lasts)
		},
	}
	cmd.Flags().DurationVar(&lasts, "for", 0, "end it after this time; not given: when you undo it")
	s.Flags(cmd)
	s.UndoFlag(cmd, "let shards move again")
	return cmd
}

func (a *group) freeze(ctx context.Context, s *app.Steer, lasts time.Duration) error {
	req := &adminv1.FreezeRequest{Thaw: s.Undo, ForMs: lasts.Milliseconds(), DryRun: s.DryRun, By: app.WhoAmI(), Reason: s.Reason}
	return a.Steer(ctx, s, func(ctx context.Context, admin *adminclient.Client) (*adminv1.SteerResponse, error) {
		return admin.Freeze(ctx, req)
	}, func(res *adminv1.SteerResponse) string {
		if s.Undo {
			return "nothing is frozen"
		}
		return "frozen: no shard moves unless it has to" + phrase.Until(res.UntilUnixMs)
	})
}

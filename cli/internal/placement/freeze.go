package placement

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/adminclient"
)

func (a *group) freezeCommand() *cobra.Command {
	s := &app.Steer{}
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "freeze", Short: "Let no shard move unless it has to", Args: cobra.NoArgs,
		Long: `Stops every move of a shard that can stay where it is: moves for balance, moves of
pins, and roost move. Drains go on, and shards of regions that leave or are lost
still get other places. roost thaw ends it, or the time that --for gives.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("for") && lasts < time.Millisecond { // 0 ms mean that it has no end
				return app.Usage(fmt.Errorf("--for is %v, must be at least 1ms", lasts))
			}
			return a.freeze(cmd.Context(), s, false, lasts)
		},
	}
	cmd.Flags().DurationVar(&lasts, "for", 0, "end it after this time; not given: when you thaw")
	s.Flags(cmd)
	return cmd
}

func (a *group) thawCommand() *cobra.Command {
	s := &app.Steer{}
	cmd := &cobra.Command{
		Use: "thaw", Short: "Let shards move again", Args: cobra.NoArgs,
		Long: "Ends what roost freeze began.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.freeze(cmd.Context(), s, true, 0) },
	}
	s.Flags(cmd)
	return cmd
}

func (a *group) freeze(ctx context.Context, s *app.Steer, thaw bool, lasts time.Duration) error {
	req := &adminv1.FreezeRequest{Thaw: thaw, ForMs: lasts.Milliseconds(), DryRun: s.DryRun, By: app.WhoAmI(), Reason: s.Reason}
	return a.Steer(ctx, s, func(ctx context.Context, admin *adminclient.Client) (*adminv1.SteerResponse, error) {
		res, err := admin.Freeze(ctx, req)
		if err == nil && res.UntilUnixMs != 0 { // the next attempt asks for the same
			req.ForMs, req.UntilUnixMs = 0, res.UntilUnixMs
		}
		return res, err
	}, func(res *adminv1.SteerResponse) string {
		if thaw {
			return "nothing is frozen"
		}
		return "frozen: no shard moves unless it has to" + phrase.Until(res.UntilUnixMs)
	})
}

package shard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) pinCommand() *cobra.Command {
	s := &app.Steer{}
	cmd := &cobra.Command{
		Use: "pin TYPE/SHARD… REGION", Short: "Pin shards to a region",
		Args: func(cmd *cobra.Command, args []string) error {
			if s.Undo {
				return cobra.MinimumNArgs(1)(cmd, args)
			}
			return shardsAndRegion(cmd, args)
		},
		Example: "  roost shard show Airport/PHX          # its shard is 17\n  roost shard pin Airport/17 region-2 --reason \"near its caller\"\n  roost shard pin Airport/17 --undo",
		Long: `Pins shards to the region with this name: they move there, and are there whenever it can be
given them; while it is away other regions have them. --undo, with shards only, ends that; then
they move as the strategy sees fit.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.Undo {
				return a.pin(cmd.Context(), s, args, "")
			}
			region := args[len(args)-1]
			if region == "" {
				return app.Usage(errors.New("the name of the region is empty; to end a pin, use roost shard pin --undo"))
			}
			return a.pin(cmd.Context(), s, args[:len(args)-1], region)
		},
	}
	s.Flags(cmd)
	s.AheadFlag(cmd)
	s.UndoFlag(cmd, "end the pins of these shards")
	return cmd
}

func (a *group) pin(ctx context.Context, s *app.Steer, shards []string, region string) error {
	req := &adminv1.PinRequest{Ahead: s.Ahead, DryRun: s.DryRun, By: app.WhoAmI(), Reason: s.Reason}
	for _, text := range shards {
		typ, index, err := app.ShardOf(text)
		if err != nil {
			return err
		}
		req.Pins = append(req.Pins, &adminv1.Pin{Type: typ, Index: index, Region: region})
	}
	return a.Steer(ctx, s, func(ctx context.Context, admin *adminclient.Client) (*adminv1.SteerResponse, error) {
		return admin.Pin(ctx, req)
	}, func(res *adminv1.SteerResponse) string {
		what := strings.Join(shards, " ")
		if len(shards) > 4 {
			what = phrase.Plural(len(shards), "shard")
		}
		verb := map[bool]string{true: "is", false: "are"}[len(shards) == 1]
		if region == "" {
			return fmt.Sprintf("%s %s not pinned", what, verb)
		}
		return fmt.Sprintf("%s %s pinned to %s", what, verb, res.Region)
	})
}

// shardsAndRegion checks the arguments of roost shard pin.
func shardsAndRegion(_ *cobra.Command, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("one or more shards and a region are needed, %s given", phrase.Plural(len(args), "argument"))
	}
	return nil
}

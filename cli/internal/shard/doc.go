// Package shard has the commands about shards: where they are and why, moves and pins.
//
// It chooses no region: the coordinator does, or the operator.
package shard

import (
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// group has the commands of the package.
type group struct{ *app.App }

// Command returns the group.
func Command(a *app.App) *cobra.Command {
	g := &group{a}
	cmd := &cobra.Command{
		Use: "shard", Short: "Inspect, move and pin shards", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(g.listCommand(), g.showCommand(), g.moveCommand(), g.pinCommand())
	return cmd
}

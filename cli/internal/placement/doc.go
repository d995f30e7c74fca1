// Package placement has the commands about the placement of all shards: what operators have asked
// for, what would move, and the freeze.
//
// It computes no plan: the active coordinator does.
package placement

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
		Use: "placement", Short: "Plan and freeze the placement of shards", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(g.statusCommand(), g.planCommand(), g.freezeCommand())
	return cmd
}

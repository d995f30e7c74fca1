// Package rollout has the commands about versions of the regions' code.
//
// It replaces no process.
package rollout

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
		Use: "rollout", Short: "Inspect and steer rollouts of new versions", Args: cobra.NoArgs,
		Long: `A version becomes the target of a rollout when its first region registers, unless it was seen
before; roost rollout target sets it, to go back for instance. While a rollout is on, shards that need
a place go to regions of the target, and nothing moves for balance.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(g.statusCommand(), g.targetCommand(), g.lookCommand())
	return cmd
}

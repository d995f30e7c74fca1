// Package region has the commands about regions: their memory and load, drains and cordons.
//
// It stops no process: roost cluster leave does.
package region

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
		Use: "region", Short: "Inspect, drain and cordon regions", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(g.listCommand(), g.showCommand(), g.drainCommand(), g.cordonCommand())
	return cmd
}

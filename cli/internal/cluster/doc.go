// Package cluster has the commands about the cluster as a whole: its members and gateways, their
// health, what is busy or slow, its lease and its discovery.
//
// It decides nothing: the coordinators do, and most commands only show what these answer.
package cluster

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
		Use: "cluster", Short: "Inspect the cluster and its members", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(g.statusCommand(), g.doctorCommand(), g.topCommand(), g.slowCommand(), g.dashboardCommand(), g.leaseCommand(), g.discoveryCommand(), g.eventsCommand(), g.joinCommand(), g.leaveCommand(), g.downCommand())
	return cmd
}

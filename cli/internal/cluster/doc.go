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

// Commands returns the commands.
func Commands(a *app.App) []*cobra.Command {
	g := &group{a}
	return []*cobra.Command{g.membersCommand(), g.doctorCommand(), g.topCommand(), g.slowCommand(), g.dashboardCommand(), g.leaveCommand(), g.downCommand(), g.removeCommand(), g.joinCommand(), g.eventsCommand(), g.discoveryCommand(), g.leaseCommand()}
}

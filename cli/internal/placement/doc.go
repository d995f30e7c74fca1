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

// Commands returns the commands.
func Commands(a *app.App) []*cobra.Command {
	g := &group{a}
	return []*cobra.Command{g.steeringCommand(), g.planCommand(), g.freezeCommand(), g.thawCommand()}
}

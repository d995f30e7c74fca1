// Package region has the commands about regions: what they have in memory, drains and cordons.
//
// It stops no process: roost cluster leave does.
package region

import (
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// group has the commands of the package.
type group struct{ *app.App }

// Commands returns the commands.
func Commands(a *app.App) []*cobra.Command {
	g := &group{a}
	return []*cobra.Command{g.regionsCommand(), g.drainCommand(), g.cordonCommand(), g.uncordonCommand()}
}

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

// Commands returns the commands.
func Commands(a *app.App) []*cobra.Command {
	g := &group{a}
	return []*cobra.Command{g.rolloutCommand()}
}

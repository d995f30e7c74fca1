// Package call has roost call, which sends a command to an entity.
//
// It does not encode inputs: they are JSON, as over HTTP.
package call

import (
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// group has the commands of the package.
type group struct{ *app.App }

// Command returns the command.
func Command(a *app.App) *cobra.Command {
	g := &group{a}
	return g.callCommand()
}

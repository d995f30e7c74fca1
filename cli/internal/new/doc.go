// Package new has the commands that scaffold programs: roost new.
//
// It neither downloads nor builds anything: the Go command does.
package new

import (
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// group has the commands of the package.
type group struct{ *app.App }

// Command returns the command.
func Command(a *app.App) *cobra.Command {
	g := &group{a}
	return g.newCommand()
}

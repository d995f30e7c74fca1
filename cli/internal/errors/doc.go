// Package errors has roost errors, which explains the numbers of Roost's errors.
//
// It asks no cluster.
package errors

import (
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// group has the commands of the package.
type group struct{ *app.App }

// Command returns the command.
func Command(a *app.App) *cobra.Command {
	g := &group{a}
	return g.errorsCommand()
}

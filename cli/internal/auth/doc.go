// Package auth has the commands that make keys, tokens and certificates.
//
// It stores nothing but the files that it names, and withdraws nothing.
package auth

import (
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// group has the commands of the package.
type group struct{ *app.App }

// Commands returns the commands.
func Commands(a *app.App) []*cobra.Command {
	g := &group{a}
	return []*cobra.Command{g.keyCommand(), g.certCommand()}
}

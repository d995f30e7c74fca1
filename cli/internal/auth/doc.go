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

// Command returns the group.
func Command(a *app.App) *cobra.Command {
	g := &group{a}
	cmd := &cobra.Command{
		Use: "auth", Short: "Make keys, tokens and certificates", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(g.keyCommand(), g.certCommand())
	return cmd
}

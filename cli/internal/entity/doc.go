// Package entity has the commands about entities: listing, showing, explaining, deleting and
// quarantining them, and their reminders and sends.
//
// It runs no code of entities, and sends them no commands of their own: roost call does.
package entity

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
		Use: "entity", Short: "Inspect, delete and quarantine entities", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(g.listCommand(), g.showCommand(), g.explainCommand(), g.deleteCommand(), g.quarantineCommand(), g.remindersCommand(), g.rememberedCommand(), g.sendsCommand())
	return cmd
}

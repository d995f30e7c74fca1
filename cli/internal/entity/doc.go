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

// Commands returns the commands.
func Commands(a *app.App) []*cobra.Command {
	g := &group{a}
	return []*cobra.Command{g.entitiesCommand(), g.entityCommand(), g.explainCommand(), g.quarantineCommand(), g.remindersCommand(), g.rememberedCommand(), g.sendsCommand()}
}

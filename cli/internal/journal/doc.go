// Package journal has the commands that work on the journal itself, with or without a running
// cluster: check, upgrade, backup, restore, repair and snapshots.
//
// It knows no state of entities: what needs their code is done by a region binary, which it runs.
package journal

import (
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// group has the commands of the package.
type group struct{ *app.App }

// Commands returns the commands.
func Commands(a *app.App) []*cobra.Command {
	g := &group{a}
	return []*cobra.Command{g.journalCommand(), g.backupCommand(), g.restoreCommand(), g.repairCommand(), g.snapshotCommand()}
}

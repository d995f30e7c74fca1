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

// Command returns the group.
func Command(a *app.App) *cobra.Command {
	g := &group{a}
	cmd := &cobra.Command{
		Use: "journal", Short: "Check, upgrade, back up and repair the journal", Args: cobra.NoArgs,
		Long: `These commands work on the journal itself, whether the cluster runs or not.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(g.checkCommand(), g.upgradeCommand(), g.backupCommand(), g.restoreCommand(), g.repairCommand(), g.snapshotCommand())
	return cmd
}

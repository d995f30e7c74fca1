package journal

import (
	"github.com/spf13/cobra"
)

// repairCommand is the group of commands that repair damaged data.
func (a *group) repairCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "repair", Short: "Repair damaged data", Args: cobra.NoArgs,
		Long: `Repairs stored data that is damaged. It works on the journal itself, whether
the cluster runs or not, and says first what it would do and what is lost. Each
repair needs a reason, which is kept: roost journal repair ls. See docs/running/repair.md.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.repairFactsCommand(), a.repairFindCommand(), a.repairRecordCommand(), a.repairSnapshotCommand(), a.repairListCommand())
	return cmd
}

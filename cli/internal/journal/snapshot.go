package journal

import (
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
)

const snapshotDropHelp = `Drops the snapshots of all entities of a type, or of one entity, so that they are
rebuilt from their events when they are loaded next: after a mistake in what was
stored in them, or in how reducers derive the state. The region binary does it
("BINARY snapshot drop" is the same), because a snapshot is kept if that binary could
not rebuild its entity from the events.

It can run while the cluster does. A snapshot is a copy, and dropping one needs no claim
on its shard. An entity that is live keeps its state until it is loaded again, and its
region may store a new snapshot of that state: to rebuild everything, roll the mended
region out first, and drop the snapshots then.

The journal comes from --journal.url, from the environment variable ROOST_JOURNAL_URL,
from --config, or from the cluster that "roost dev" runs in --dir. A user of PostgreSQL
needs the role roost_service.

Exit codes: 0 all snapshots there were are dropped, 1 some were kept, 2 it could not be
done, or not to its end.`

func (a *group) snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "snapshot", Short: "Drop snapshots of entities", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var f toolFlags
	var dry bool
	drop := &cobra.Command{
		Use: "drop TYPE[/ID]", Short: "Drop snapshots, to rebuild entities from events", Long: snapshotDropHelp, Args: app.OneName,
		Example: "  roost journal snapshot drop Cart --region ./bin/shop-region --dry-run\n  roost journal snapshot drop Cart/anna",
		RunE: func(cmd *cobra.Command, names []string) error {
			args := []string{"snapshot", "drop", names[0]}
			if dry {
				args = append(args, "--dry-run")
			}
			return a.runTool(cmd.Context(), f, args)
		},
	}
	f.add(drop)
	drop.Flags().BoolVar(&dry, "dry-run", false, "say how many there are, and drop none")
	cmd.AddCommand(drop)
	return cmd
}

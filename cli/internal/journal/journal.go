package journal

import (
	"github.com/spf13/cobra"
)

const journalCheckHelp = `Reads everything that is stored with the code of a region binary, and lists what that
code cannot read: the snapshots as a region would, and all events. Run it with a
new version of your region before you roll that out. It also compares the forms that
the code reads with those that the coordinators have noted for each shard, because a
region is given only shards whose forms it reads. It only reads, claims nothing, and
can run while the cluster does.

The binary does the work ("BINARY journal check" is the same), with its own code.
The journal comes from --journal.url, from the environment variable ROOST_JOURNAL_URL,
from --config, or from the cluster that "roost dev" runs in --dir. A user of PostgreSQL
needs no more than the role roost_reader.

It also lists damaged facts of the coordinators. With --facts it does only that, and
needs no region binary; "roost journal repair facts" puts that right.

If the journal is in SQLite, it also reads every page of the file, and names those that do
not match their checksums: also free pages and pages of indexes. An older copy that was put
over the file is not read: every region refuses it, too.

The report names the events, versions and entities that cannot be read, and what to
do; it is bounded, and counts the rest. A snapshot of a form that the binary does not
read is not a mistake: it is ignored, the entity is rebuilt from its events, and the
report counts it.

Exit codes: 0 the code reads everything, 1 it does not: it cannot read something that is
stored, would not be given a shard, or lacks a type (--type leaves types out), or facts or pages are damaged, or the
file is an older copy, 2 the check
could not be done, or not to its end, or the binary is not a region.`

func (a *group) checkCommand() *cobra.Command {
	var f toolFlags
	var types []string
	var sample int
	var seed uint64
	var facts bool
	check := &cobra.Command{
		Use: "check", Short: "Check whether a region binary reads all data", Long: journalCheckHelp, Args: cobra.NoArgs,
		Example: "  roost journal check --region ./bin/shop-region\n" +
			"  roost journal check --region ./bin/shop-region --journal.url postgres://checker@db/roost --sample 1000",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if facts {
				return a.journalCheckFacts(cmd.Context(), &f.journal)
			}
			args := []string{"journal", "check"}
			for _, t := range types {
				args = append(args, "--type="+t)
			}
			for _, name := range []string{"sample", "seed"} {
				if g := cmd.Flags().Lookup(name); g.Changed {
					args = append(args, "--"+name+"="+g.Value.String())
				}
			}
			return a.withPages(cmd.Context(), f, a.withFacts(cmd.Context(), f, a.runTool(cmd.Context(), f, args)))
		},
	}
	f.add(check)
	check.Flags().BoolVar(&facts, "facts", false, "check only the facts of the coordinators")
	check.Flags().StringSliceVar(&types, "type", nil, "check this entity type only; may be given several times")
	check.Flags().IntVar(&sample, "sample", 0, "check so many entities of each type, chosen at random; 0: all")
	check.Flags().Uint64Var(&seed, "seed", 0, "choose the same sample again: the seed that was printed")
	return check
}

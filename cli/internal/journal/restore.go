package journal

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/sharding"
)

const restoreHelp = `Puts the journal of a backup in place of the journal: a new one, or with --replace one
that has something stored. Stop all regions and coordinators first; with --in-use those
that cannot be stopped are shut out. Start them again afterwards. Gateways may go on.

What was acknowledged after the backup is lost, idempotency keys among it: a command
that is lost runs again if it is repeated. The restored journal has another generation,
and its terms begin more than a million above all that were given out, so that nothing
which remembers the old one has an effect any more. Nothing is changed unless the backup
is complete. FILE "-" is standard input.

A backup of several databases needs a place for each (--journal.databases), and is read
twice: before anything is changed, and then again. If it is interrupted in between, no
process can use the databases until it is run again.

The journal comes from --journal.url, from the environment variable ROOST_JOURNAL_URL,
or from the cluster that "roost dev" runs in --dir. PostgreSQL needs the role that owns
the schema. See docs/running/backup.md.`

// restoredJournal is the output of restore.
type restoredJournal struct {
	Backup           backedUp `json:"backup"`
	DryRun           bool     `json:"dry_run"`
	Generation       string   `json:"generation"`
	NextTerm         uint32   `json:"next_term"`
	Replaced         bool     `json:"replaced"`
	ReplacedTerm     uint32   `json:"replaced_term,omitempty"`
	ReplacedUnusable string   `json:"replaced_damage,omitempty"`
}

func (a *group) restoreCommand() *cobra.Command {
	var f journalFlags
	var o backup.Options
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Restore the journal from a backup", Long: restoreHelp, Args: app.OneFile,
		Example: "  roost journal restore shop.backup --dry-run --replace --journal.url " + exampleOwner + "\n  roost journal restore shop.backup --journal.url sqlite:/var/lib/roost/journal.db",
		RunE: func(cmd *cobra.Command, names []string) error {
			at, err := a.journalAt(&f)
			if err != nil {
				return err
			}
			return a.restore(cmd.Context(), at, names[0], o)
		},
	}
	flags := cmd.Flags()
	f.add(cmd, "URL of the journal, for the owner of its schema; env ROOST_JOURNAL_URL; default: the journal of roost dev")
	flags.BoolVar(&o.Replace, "replace", false, "replace a journal in which something is stored")
	flags.BoolVar(&o.InUse, "in-use", false, "replace a journal that other processes have open, and shut them out")
	flags.BoolVar(&o.DryRun, "dry-run", false, "read the whole backup, say what would be done, and change nothing")
	return cmd
}

func (a *group) restore(ctx context.Context, at journalopen.At, file string, o backup.Options) error {
	var all []backup.Restored
	size, err := a.readBackup(file, "restored", func(in io.Reader) (err error) {
		all, err = journalopen.Restore(ctx, at, again(in), journal.DefaultConfig(), o)
		return err
	})
	if err != nil {
		return journalError(err)
	}
	r := all[0]
	var headers []backup.Header
	for i := range all {
		headers = append(headers, all[i].Header)
	}
	out := restoredJournal{
		Backup: newBackedUp(file, headers, size), DryRun: o.DryRun, Generation: r.Facts.Generation.String(), NextTerm: uint32(r.NextTerm()),
		Replaced: r.Replaced.Stored, ReplacedTerm: uint32(r.Replaced.Facts.MaxEpoch.Term()),
	}
	if r.Replaced.Damage != nil {
		out.ReplacedUnusable = r.Replaced.Damage.Error()
	}
	if a.JSON() {
		return a.PrintJSON(out)
	}
	return a.PrintLines(out.lines(r))
}

func (r restoredJournal) lines(of backup.Restored) []string {
	done, next := "Restored from "+r.Backup.File+".", "Start the coordinators and regions again. Those that still run have no effect any more, and end by themselves."
	if r.DryRun {
		done, next = "Would be restored from "+r.Backup.File+"; nothing was changed.", "Without --dry-run the generation is drawn anew."
	}
	lost := "whatever was acknowledged after that: in the rest of that term and in later ones"
	if t := of.Replaced.Facts.MaxEpoch.Term(); t > sharding.Term(r.Backup.Term) {
		lost = fmt.Sprintf("whatever was acknowledged after that: up to term %d, the last one of the journal that is replaced", t)
	}
	lines := append([]string{done}, r.Backup.lines()...)
	if r.ReplacedUnusable != "" {
		lines = append(lines, "  replaced    a journal that cannot be read: "+r.ReplacedUnusable)
	}
	return append(lines,
		"  lost        "+lost,
		"  keys        a command that is lost runs again if it is repeated, also with the same idempotency key",
		fmt.Sprintf("  from now on generation %s, terms from %d on", r.Generation, r.NextTerm),
		next)
}

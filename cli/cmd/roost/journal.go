package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// exitUnchecked is the exit code of a tool that could not find out what was asked. It is
// that of the region binaries' own tools.
const exitUnchecked = 2

// toolStatusBase is what a region adds to the exit codes of its tools if the variable
// ROOST_TOOL_STATUS asks for it. By that it is told from any other program, which may well
// exit with 0.
const toolStatusBase = 64

// toolPatience is how long a tool that was interrupted has to print what it has found.
const toolPatience = 5 * time.Second

// toolStatus is the exit code of a tool that has printed everything itself.
type toolStatus int

func (s toolStatus) Error() string { return fmt.Sprintf("exit code %d", int(s)) }

// toolError is why a tool could not be run.
type toolError struct{ error }

func (e toolError) Unwrap() error { return e.error }

const journalCheckHelp = `Reads everything that is stored with the code of a region binary, and says what that
code cannot read: the snapshots as a region would, and all events. Run it with a
new version of your region before you roll that out. It also compares the forms that
the code reads with those that the coordinators have noted for each shard, because a
region is given only shards of which it reads all forms. It only reads, claims
nothing, and can run beside the cluster.

The binary does the work ("BINARY journal check" is the same), with its own code.
The journal is that of --journal.url, of the environment variable ROOST_JOURNAL_URL,
of --config, or of the cluster that "roost dev" runs in --dir. A user of PostgreSQL
needs no more than the role roost_reader.

It also says what of the coordinators' facts is damaged. With --facts it does only that, and
needs no region binary; "roost repair facts" puts that right.

If the journal is in SQLite, it reads every page of the file besides, and names those that do
not match their checksums: also free pages, and those of indexes.

The report names the events, versions and entities that cannot be read, and what to
do; it is bounded, and counts the rest. A snapshot of a form that the binary does not
read is no mistake: it is ignored, the entity is rebuilt from its events, and the
report counts it.

Exit codes: 0 the code reads everything, 1 it does not: it cannot read something that is
stored, would not be given a shard, or lacks a type (--type leaves types out), or facts or pages are damaged, 2 the check
could not be done, or not to its end, or the binary is no region.`

// toolFlags say with which binary a tool is run, and on which journal.
type toolFlags struct {
	region, config string
	journal        journalFlags
}

func (f *toolFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.region, "region", "", "your region binary; default: that of roost dev")
	f.journal.add(cmd, "URL of the journal, as the regions have it; env ROOST_JOURNAL_URL; default: that of roost dev")
	flags.StringVar(&f.config, "config", "", "a region's configuration file, which names the journal")
}

func (a *app) journalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "journal", Short: "Look at what is stored, and upgrade it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var f toolFlags
	var types []string
	var sample int
	var seed uint64
	var facts bool
	check := &cobra.Command{
		Use: "check", Short: "Check whether a region binary can read all that is stored", Long: journalCheckHelp, Args: cobra.NoArgs,
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
	cmd.AddCommand(check, a.journalChange(upgradeChange), a.journalChange(activateChange))
	return cmd
}

const snapshotDropHelp = `Drops the snapshots of all entities of a type, or of one entity, so that they are
rebuilt from their events when they are loaded next: after a mistake in what was
stored in them, or in how Apply derives the state. The region binary does it
("BINARY snapshot drop" is the same), because a snapshot is kept if that binary could
not rebuild its entity from the events.

It can run beside the cluster. A snapshot is a copy, and dropping one needs no claim
on its shard. An entity that is live keeps its state until it is loaded again, and its
region may store a new snapshot of that state: to rebuild everything, roll the mended
region out first, and drop the snapshots then.

The journal is that of --journal.url, of the environment variable ROOST_JOURNAL_URL,
of --config, or of the cluster that "roost dev" runs in --dir. A user of PostgreSQL
needs the role roost_service.

Exit codes: 0 all snapshots there were are dropped, 1 some were kept, 2 it could not be
done, or not to its end.`

func (a *app) snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "snapshot", Short: "Drop snapshots of entities", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var f toolFlags
	var dry bool
	drop := &cobra.Command{
		Use: "drop TYPE[/ID]", Short: "Drop snapshots, so that entities are rebuilt from their events", Long: snapshotDropHelp, Args: oneName,
		Example: "  roost snapshot drop Cart --region ./bin/shop-region --dry-run\n  roost snapshot drop Cart/anna",
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

// runTool runs a tool of a region binary. What it prints is printed as it is.
func (a *app) runTool(ctx context.Context, f toolFlags, args []string) error {
	environ := os.Environ()
	if f.config != "" {
		args = append(args, "--config="+f.config)
	}
	given := f.journal.url != "" || f.config != "" || os.Getenv("ROOST_JOURNAL_URL") != "" || os.Getenv("ROOST_JOURNAL_URL_FILE") != ""
	if f.region == "" || !given {
		state, err := a.state("name your region with --region and its journal with --journal.url (after roost dev --data DIR, that is sqlite:DIR/journal.db)")
		if err != nil {
			return toolError{err}
		}
		f.region = cmp.Or(f.region, state.Region)
		if !given {
			f.journal.url = state.Journal
		}
	}
	if f.journal.databases != nil {
		environ = append(environ, "ROOST_JOURNAL_DATABASES="+strings.Join(f.journal.databases, ","))
	}
	if f.journal.url != "" { // not as an argument, because it may hold a password
		environ = slices.DeleteFunc(environ, func(e string) bool { return strings.HasPrefix(e, "ROOST_JOURNAL_URL") })
		environ = append(environ, "ROOST_JOURNAL_URL="+f.journal.url)
	}
	if a.json() {
		args = append(args, "--output=json")
	}
	binary, err := filepath.Abs(f.region) // else it is looked for in PATH
	if err != nil {
		return toolError{err}
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(environ, fmt.Sprintf("ROOST_TOOL_STATUS=%d", toolStatusBase)), a.out, a.err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = toolPatience
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil && !errors.As(err, &exit):
		return toolError{fmt.Errorf("the region binary cannot be run: %w", err)}
	}
	switch code := cmd.ProcessState.ExitCode() - toolStatusBase; {
	case code == exitOK:
		return nil
	case code > exitOK && code <= exitUnchecked:
		return toolStatus(code)
	}
	return toolError{fmt.Errorf("%s has not done it and ended with %s: it is no region, or one of another release; name a binary whose main calls server.Main of services/region/server", f.region, cmd.ProcessState)}
}

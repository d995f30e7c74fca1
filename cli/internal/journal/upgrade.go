package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/journal"
	journalopen "github.com/roost-cluster/roost/libs/journal/open"
)

const journalUpgradeHelp = `Expands the schema of the journal to the format of this release, and creates one
where there is none. Run it as the owner of the schema, before any process of this
release starts; processes of the release before go on meanwhile, and may be started
again afterwards. What is there already is left alone, so it can be run again.

--finalize finalizes the upgrade: releases before this one can no longer use the journal, so that
this one may store what they cannot read. Run it as the owner of the schema, when all processes are of
this release. This cannot be undone.

The journal comes from --journal.url, from the environment variable ROOST_JOURNAL_URL,
or from the cluster that "roost dev" runs in --dir. See docs/running/upgrading.md.`

// exampleOwner is the journal's URL in the examples of commands that need the schema's owner.
const exampleOwner = "postgres://owner@db/roost"

// journalChange is a change of the journal for a release.
type journalChange struct {
	run                func(ctx context.Context, url string, cfg journal.Config, dryRun bool) (changed bool, err error)
	done, would, empty string // its messages, with a verb for the format
}

var (
	expansion = journalChange{
		run:  journalopen.Upgrade,
		done: "The schema now has format %d.", would: "It would get a schema of format %d.", empty: "The schema has format %d already: nothing to do.",
	}
	activation = journalChange{
		run:  journalopen.Activate,
		done: "Releases below format %d can no longer use the journal.", would: "Releases below format %d could no longer use the journal.",
		empty: "The journal is activated for format %d already: nothing to do.",
	}
)

// journalChanged is the result of such a command.
type journalChanged struct {
	Format  int  `json:"format"`
	Changed bool `json:"changed"`
	DryRun  bool `json:"dry_run"`
}

// journalFlags say where the journal is.
type journalFlags struct {
	url       string
	databases []string
}

func (f *journalFlags) add(cmd *cobra.Command, help string) {
	cmd.Flags().StringVar(&f.url, "journal.url", "", help)
	cmd.Flags().StringSliceVar(&f.databases, "journal.databases", nil, "the other databases of the journal, such as 2=postgres://roost@db2/roost; env ROOST_JOURNAL_DATABASES, which is not read if --journal.url is given")
}

// journalAt returns the journal's address: from the flags, from the environment, or roost dev's.
// The databases of the environment belong to its URL: a restore to another one must not reach them.
func (a *group) journalAt(f *journalFlags) (journalopen.At, error) {
	url, err := a.journalURL(f.url)
	at := journalopen.At{URL: url, Databases: f.databases}
	if env := os.Getenv("ROOST_JOURNAL_DATABASES"); at.Databases == nil && f.url == "" && env != "" {
		at.Databases = strings.Split(env, ",")
	}
	return at, err
}

// journalOfDev names the flag for the journal of a cluster of roost dev that has ended.
const journalOfDev = "--journal.url (after roost dev --data DIR, that is sqlite:DIR/journal.db)"

// journalURL returns the journal's URL: from the flag, from the environment, or roost dev's.
func (a *group) journalURL(flag string) (string, error) {
	if url := cmp.Or(flag, os.Getenv("ROOST_JOURNAL_URL")); url != "" {
		return url, nil
	}
	state, err := a.State("name the journal with " + journalOfDev)
	if err != nil {
		return "", err
	}
	return state.Journal, nil
}

func (a *group) upgradeCommand() *cobra.Command {
	var url string
	var dryRun, finalize bool
	cmd := &cobra.Command{
		Use: "upgrade", Short: "Upgrade the schema of the journal", Long: journalUpgradeHelp, Args: cobra.NoArgs,
		Example: "  roost journal upgrade --dry-run --journal.url " + exampleOwner + "\n  roost journal upgrade --finalize --journal.url " + exampleOwner,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := expansion
			if finalize {
				c = activation
			}
			url, err := a.journalURL(url)
			if err != nil {
				return err
			}
			changed, err := c.run(cmd.Context(), url, journal.DefaultConfig(), dryRun)
			if errors.Is(err, journal.ErrConfig) {
				return app.Usage(fmt.Errorf("--journal.url: %w", err))
			}
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(journalChanged{Format: journal.Format, Changed: changed, DryRun: dryRun})
			}
			says := c.empty
			if changed {
				if says = c.done; dryRun {
					says = c.would
				}
			}
			_, err = fmt.Fprintf(a.Out, says+"\n", journal.Format)
			return err
		},
	}
	cmd.Flags().StringVar(&url, "journal.url", "", "URL of the journal, for the owner of its schema; env ROOST_JOURNAL_URL; default: the journal of roost dev")
	cmd.Flags().BoolVar(&finalize, "finalize", false, "finalize the upgrade: earlier releases can no longer use the journal")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and change nothing")
	return cmd
}

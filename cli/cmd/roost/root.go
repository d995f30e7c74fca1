package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/auth"
	"github.com/roost-cluster/roost/cli/internal/call"
	"github.com/roost-cluster/roost/cli/internal/cluster"
	"github.com/roost-cluster/roost/cli/internal/dev"
	"github.com/roost-cluster/roost/cli/internal/entity"
	errorsgroup "github.com/roost-cluster/roost/cli/internal/errors"
	"github.com/roost-cluster/roost/cli/internal/journal"
	newgroup "github.com/roost-cluster/roost/cli/internal/new"
	"github.com/roost-cluster/roost/cli/internal/placement"
	"github.com/roost-cluster/roost/cli/internal/region"
	"github.com/roost-cluster/roost/cli/internal/rollout"
	"github.com/roost-cluster/roost/cli/internal/shard"
	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/node"
)

const rootHelp = `Starts a Roost cluster on this machine, and shows and steers clusters.

Which cluster: --admin and --gateway URLs if given, else the environment
variables ROOST_ADMIN and ROOST_GATEWAY (several with commas), else the cluster
that "roost dev" runs in --dir.

Clusters that ask who calls: a management token, or for "roost call" a token or an API key, in
the file --token-file, or in the environment variable ROOST_ADMIN_TOKEN, or for "roost call"
ROOST_TOKEN. https URLs with an authority of your own: --ca, and --cert and --key where the
cluster asks for certificates; or ROOST_CA, ROOST_CERT and ROOST_KEY.

Exit codes: 0 ok, 1 failed or refused, 2 wrong usage, 3 not found, 6 cluster unreachable,
7 timed out (--timeout), 130 interrupted. "roost journal check" and "roost journal snapshot
drop" have their own: see their --help.`

// run runs the command line and returns the exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	a := &app.App{Out: out, Err: errOut}
	started := false
	root := rootCommand(a, &started)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return app.ExitOK
	}
	if !started {
		usage := "\nusage: " + cmd.UseLine()
		if cmd == root { // the list of commands is more useful
			usage = ""
		}
		err = app.Usage(fmt.Errorf("%w%s\nsee: %s --help", err, usage, cmd.CommandPath()))
	}
	code := app.ExitCode(ctx, err)
	var told app.ToolStatus
	if !errors.Is(err, app.ErrInterrupted) && !errors.As(err, &told) {
		fmt.Fprintf(errOut, "roost: %s\n", backendurl.RedactText(app.Message(err)))
	}
	return code
}

// rootCommand composes the groups of commands. It sets started when the command line is accepted.
func rootCommand(a *app.App, started *bool) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use: "roost", Short: "Start, inspect and steer clusters", Long: rootHelp,
		SilenceErrors: true, SilenceUsage: true, Args: cobra.NoArgs,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRunE: func(*cobra.Command, []string) error {
			*started = true
			if a.Output != "table" && a.Output != "json" {
				return app.Usage(fmt.Errorf("-o %q: write table or json", a.Output))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return printVersion(a)
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVarP(&version, "version", "v", false, "print the version")
	flags := root.PersistentFlags()
	flags.StringVar(&a.Dir, "dir", app.EnvOr("ROOST_DIR", ".roost"), "where roost dev keeps its files; env ROOST_DIR")
	flags.StringSliceVar(&a.Admin, "admin", nil, "management URLs of the coordinators; env ROOST_ADMIN")
	flags.StringSliceVar(&a.Gateway, "gateway", nil, "URLs of gateways; env ROOST_GATEWAY")
	flags.StringVarP(&a.Output, "output", "o", "table", "table or json")
	flags.StringVar(&a.TokenFile, "token-file", "", "file with the token that identifies the caller; env ROOST_ADMIN_TOKEN, or for roost call ROOST_TOKEN, with the token itself")
	flags.StringVar(&a.CA, "ca", os.Getenv("ROOST_CA"), "file with the authorities of https URLs; default: the system's authorities; env ROOST_CA")
	flags.StringVar(&a.Cert, "cert", os.Getenv("ROOST_CERT"), "file with a certificate of your own for https URLs; env ROOST_CERT")
	flags.StringVar(&a.Key, "key", os.Getenv("ROOST_KEY"), "file with the private key of --cert; env ROOST_KEY")
	root.AddCommand(
		dev.Command(a),
		newgroup.Command(a),
		call.Command(a),
		cluster.Command(a),
		region.Command(a),
		shard.Command(a),
		entity.Command(a),
		placement.Command(a),
		rollout.Command(a),
		journal.Command(a),
		auth.Command(a),
		errorsgroup.Command(a),
	)
	return root
}

// printVersion prints the version of the program.
func printVersion(a *app.App) error {
	v := node.BuildVersion("roost")
	if a.JSON() {
		return a.PrintJSON(v)
	}
	_, err := fmt.Fprintln(a.Out, v)
	return err
}

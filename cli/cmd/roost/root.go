package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

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
7 timed out (--timeout), 130 interrupted. "journal check" and "snapshot
drop" have their own: see their --help.`

// run runs the command line and returns the exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	a := &app{out: out, err: errOut}
	started := false
	root := &cobra.Command{
		Use: "roost", Short: "Cluster sharding as services", Long: rootHelp, Version: node.BuildVersion("roost").String(),
		SilenceErrors: true, SilenceUsage: true, Args: cobra.NoArgs,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRunE: func(*cobra.Command, []string) error {
			started = true
			if a.output != "table" && a.output != "json" {
				return usageError{fmt.Errorf("-o %q: write table or json", a.output)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.dir, "dir", envOr("ROOST_DIR", ".roost"), "where roost dev keeps its files; env ROOST_DIR")
	flags.StringSliceVar(&a.admin, "admin", nil, "management URLs of the coordinators; env ROOST_ADMIN")
	flags.StringSliceVar(&a.gateway, "gateway", nil, "URLs of gateways; env ROOST_GATEWAY")
	flags.StringVarP(&a.output, "output", "o", "table", "table or json")
	flags.StringVar(&a.tokenFile, "token-file", "", "file with the token that says who calls; env ROOST_ADMIN_TOKEN, or for roost call ROOST_TOKEN, with the token itself")
	flags.StringVar(&a.ca, "ca", os.Getenv("ROOST_CA"), "file with the authorities of https URLs; default: those of the system; env ROOST_CA")
	flags.StringVar(&a.cert, "cert", os.Getenv("ROOST_CERT"), "file with a certificate of your own for https URLs; env ROOST_CERT")
	flags.StringVar(&a.key, "key", os.Getenv("ROOST_KEY"), "file with the private key of --cert; env ROOST_KEY")
	root.AddCommand(a.devCommand(), a.newCommand(), a.membersCommand(), a.shardsCommand(), a.whereCommand(), a.drainCommand(), a.rolloutCommand(),
		a.cordonCommand(), a.uncordonCommand(), a.freezeCommand(), a.thawCommand(), a.pinCommand(), a.unpinCommand(), a.moveCommand(), a.steeringCommand(), a.whyCommand(), a.planCommand(), a.topCommand(), a.entitiesCommand(), a.regionsCommand(), a.slowCommand(), a.dashboardCommand(), a.explainCommand(), a.doctorCommand(), a.errorsCommand(),
		a.leaveCommand(), a.downCommand(), a.removeCommand(), a.joinCommand(), a.eventsCommand(),
		a.callCommand(), a.keyCommand(), a.certCommand(), a.entityCommand(), a.quarantineCommand(), a.remindersCommand(), a.rememberedCommand(), a.sendsCommand(), a.journalCommand(), a.repairCommand(), a.backupCommand(), a.restoreCommand(), a.snapshotCommand(), a.discoveryCommand(), a.leaseCommand(), a.versionCommand())
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if !started {
		usage := "\nusage: " + cmd.UseLine()
		if cmd == root { // the list of commands is more useful
			usage = ""
		}
		err = usageError{fmt.Errorf("%w%s\nsee: %s --help", err, usage, cmd.CommandPath())}
	}
	code := exitCode(ctx, err)
	var told toolStatus
	if !errors.Is(err, errInterrupted) && !errors.As(err, &told) {
		fmt.Fprintf(errOut, "roost: %s\n", backendurl.RedactText(message(err)))
	}
	return code
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/adminclient"
	"github.com/roost-cluster/roost/sdk/entity"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitUnreachable = 6
	exitTimedOut    = 7
	exitInterrupted = 130
)

// errInterrupted is returned by a command that was ended by Ctrl-C.
var errInterrupted = errors.New("interrupted")

// ended returns the error of a command that has waited: timeout, if its time is over.
func ended(ctx context.Context, err error, timeout string) error {
	switch {
	case ctx.Err() == nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return timeoutError{errors.New(timeout)}
	}
	return errInterrupted
}

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// refusedError is a command that a gateway could not have executed.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// timeoutError is the end of the time that --timeout gives a command.
type timeoutError struct{ error }

func (e timeoutError) Unwrap() error { return e.error }

// app is the state that all commands share.
type app struct {
	out, err io.Writer

	dir     string
	admin   []string
	gateway []string
	output  string
	// tokenFile has what says who calls. It is no flag with the token itself: anybody may list
	// command lines.
	tokenFile string
	// Files for https URLs.
	ca, cert, key string
}

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

// oneName accepts exactly one argument, a name.
func oneName(_ *cobra.Command, args []string) error {
	switch {
	case len(args) != 1:
		return fmt.Errorf("one name is needed, %d are given", len(args))
	case strings.TrimSpace(args[0]) == "":
		return errors.New("the name is empty")
	}
	return nil
}

// exitCode returns the exit code for an error.
func exitCode(ctx context.Context, err error) int {
	var usage usageError
	var late timeoutError
	var refused refusedError
	var failed *entity.Error
	var remote twirp.Error
	var status toolStatus
	var unchecked toolError
	switch {
	case errors.Is(err, errInterrupted), errors.Is(context.Cause(ctx), context.Canceled):
		return exitInterrupted
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &unchecked):
		return exitUnchecked
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &late):
		return exitTimedOut
	case errors.As(err, &refused):
		return exitFailed
	case errors.Is(err, adminclient.ErrWrongAddress):
		return exitUsage
	case errors.Is(err, cluster.ErrNoCluster), errors.Is(err, adminclient.ErrUnreachable):
		return exitUnreachable
	case errors.Is(err, cluster.ErrUnknown):
		return exitNotFound
	case errors.As(err, &failed):
		switch {
		case failed.Code == entity.NotFound:
			return exitNotFound
		case failed.Code == entity.Unavailable && failed.Outcome != sharding.OK: // else the entity says so
			return exitUnreachable
		}
	case errors.As(err, &remote):
		switch remote.Code() {
		case twirp.NotFound:
			return exitNotFound
		case twirp.InvalidArgument:
			return exitUsage
		}
	}
	return exitFailed
}

// message returns the text of an error for people.
func message(err error) string {
	var remote twirp.Error
	if !errors.Is(err, adminclient.ErrUnreachable) && errors.As(err, &remote) {
		if remote.Code() == twirp.Unauthenticated {
			return remote.Msg() + "; give the token by --token-file FILE or in ROOST_ADMIN_TOKEN"
		}
		return remote.Msg()
	}
	return err.Error()
}

// stateFile returns the path of the file in which roost dev describes its cluster.
func (a *app) stateFile() string { return filepath.Join(a.dir, "cluster.json") }

// state reads the state file of roost dev; otherwise says what else to do if there is
// none.
func (a *app) state(otherwise string) (*cluster.State, error) {
	state, err := cluster.ReadState(a.stateFile())
	if errors.Is(err, cluster.ErrNoCluster) {
		err = fmt.Errorf("%w; start one with roost dev, or %s", err, otherwise)
	}
	return state, err
}

// adminClient returns a client for the cluster that the command is about.
func (a *app) adminClient() (*adminclient.Client, error) {
	urls, err := a.urls(a.admin, "admin", (*cluster.State).Admin)
	if err != nil {
		return nil, err
	}
	options, err := a.adminOptions()
	if err != nil {
		return nil, err
	}
	return adminclient.NewWith(options, urls...), nil
}

// urls returns addresses from the flag of that name, the environment, or the state file.
func (a *app) urls(flag []string, name string, fromState func(*cluster.State) []string) ([]string, error) {
	given := flag
	if value := os.Getenv("ROOST_" + strings.ToUpper(name)); len(given) == 0 && value != "" {
		given = strings.Split(value, ",")
	}
	if len(given) == 0 {
		state, err := a.state("name one with --" + name + " URL")
		if err != nil {
			return nil, err
		}
		return fromState(state), nil
	}
	urls := make([]string, 0, len(given))
	for _, text := range given {
		full := strings.TrimSpace(text)
		if !strings.Contains(full, "://") {
			full = "http://" + full
		}
		u, err := url.Parse(full)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, usageError{fmt.Errorf("%q is not a URL such as http://localhost:8558", text)}
		}
		urls = append(urls, strings.TrimRight(full, "/"))
	}
	return urls, nil
}

func envOr(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

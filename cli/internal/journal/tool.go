package journal

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

	"github.com/roost-cluster/roost/cli/internal/app"
)

// toolStatusBase is the number that a region adds to the exit codes of its tools if the variable
// ROOST_TOOL_STATUS asks for it. It distinguishes a region from any other program, which may well
// exit with 0.
const toolStatusBase = 64

// toolPatience bounds the time that an interrupted tool gets to print its findings.
const toolPatience = 5 * time.Second

// toolFlags select the binary that runs a tool, and the journal.
type toolFlags struct {
	region, config string
	journal        journalFlags
}

func (f *toolFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.region, "region", "", "your region binary; default: the binary of roost dev")
	f.journal.add(cmd, "URL of the journal, as the regions have it; env ROOST_JOURNAL_URL; default: the journal of roost dev")
	flags.StringVar(&f.config, "config", "", "a region's configuration file, which names the journal")
}

// runTool runs a tool of a region binary. What it prints is printed as it is.
func (a *group) runTool(ctx context.Context, f toolFlags, args []string) error {
	environ := os.Environ()
	if f.config != "" {
		args = append(args, "--config="+f.config)
	}
	given := f.journal.url != "" || f.config != "" || os.Getenv("ROOST_JOURNAL_URL") != "" || os.Getenv("ROOST_JOURNAL_URL_FILE") != ""
	if f.region == "" || !given {
		state, err := a.State("name your region with --region and its journal with " + journalOfDev)
		if err != nil {
			return app.Unchecked(err)
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
	if a.JSON() {
		args = append(args, "--output=json")
	}
	binary, err := filepath.Abs(f.region) // else it is looked for in PATH
	if err != nil {
		return app.Unchecked(err)
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(environ, fmt.Sprintf("ROOST_TOOL_STATUS=%d", toolStatusBase)), a.Out, a.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = toolPatience
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return app.ErrInterrupted
	case err != nil && !errors.As(err, &exit):
		return app.Unchecked(fmt.Errorf("the region binary cannot be run: %w", err))
	}
	switch code := cmd.ProcessState.ExitCode() - toolStatusBase; {
	case code == app.ExitOK:
		return nil
	case code > app.ExitOK && code <= app.ExitUnchecked:
		return app.ToolStatus(code)
	}
	return app.Unchecked(fmt.Errorf("%s has not done it and ended with %s: it is not a region, or one of another release; name a binary whose main calls server.Main of services/region/server", f.region, cmd.ProcessState))
}

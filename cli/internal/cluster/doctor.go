package cluster

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/phrase"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check the configuration of the cluster", Args: cobra.NoArgs,
		Long: `Asks all processes how they are set up, and lists what is unsafe or unwise, the most severe
first, with what to do:

  danger   data or the whole service may be lost, or anybody may do anything
  warning  a single failure, or what comes soon, stops the service
  note     worth knowing

Exit codes: 0 there are only notes, or nothing; 1 there is a danger or a warning.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := a.AdminClient()
			if err != nil {
				return err
			}
			res, err := admin.Examine(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON() {
				err = a.PrintMessage(res)
			} else {
				err = a.PrintLines(describeAdvice(res))
			}
			if n := severe(res); err == nil && n > 0 {
				err = fmt.Errorf("%w: %s", errUnwise, phrase.Plural(n, "finding")+" to act on")
			}
			return err
		},
	}
}

// errUnwise reports that the doctor found something.
var errUnwise = errors.New("the cluster is not set up well")

// severe counts what is more than a note.
func severe(res *adminv1.ExamineResponse) (n int) {
	for _, x := range res.Advice {
		if x.Severity != "note" {
			n++
		}
	}
	return n
}

func describeAdvice(res *adminv1.ExamineResponse) (lines []string) {
	for _, x := range res.Advice {
		lines = append(lines, fmt.Sprintf("%-7s  %s: %s", x.Severity, x.Name, phrase.Printable(x.Text)))
		if len(x.Processes) > 0 {
			lines = append(lines, "         at: "+phrase.Printable(strings.Join(x.Processes, ", ")))
		}
		lines = append(lines, "         do: "+phrase.Printable(x.Next))
	}
	end := phrase.Plural(int(res.Processes), "process") + " asked"
	if len(res.Advice) == 0 {
		end += ", nothing to say"
	}
	return append(lines, end)
}

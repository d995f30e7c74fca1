package errors

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/errornumber"
)

// errorWidth is the line width, in characters, of the texts that explain a number, without their labels.
const errorWidth = 88

func (a *group) errorsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "errors [NUMBER]", Short: "Explain the numbers of errors",
		Long: `Lists the stable numbers of Roost's own errors, or explains one of them. Answers have the number in
meta.error. It queries no cluster.

CODE       the code of Twirp in the answer, and the HTTP status that comes with it
EXECUTED   whether the command had its effects: true, it ran; false, it was definitely not
           applied; unknown, it may have been applied
REPEAT     whether sending the same command again helps: yes, no, or only with its key, which
           is the idempotency key of the first attempt

Answers of entities have no number. docs/using/errors.md has the same texts.`,
		Example: "  roost errors\n  roost errors 1019\n  roost errors ROOST-1102 -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.printErrors()
			}
			e, err := errorNumber(args[0])
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(e)
			}
			return a.printError(&e)
		},
	}
}

// errorNumber finds a number that a user typed, with or without its prefix.
func errorNumber(given string) (errornumber.Entry, error) {
	digits := given
	if n := len(errornumber.Prefix); len(given) > n && strings.EqualFold(given[:n], errornumber.Prefix) {
		digits = given[n:]
	}
	e, found := errornumber.Find(errornumber.Number(errornumber.Prefix + digits))
	switch {
	case found:
		return e, nil
	case len(digits) != 4 || strings.Trim(digits, "0123456789") != "":
		return e, app.Usage(fmt.Errorf("%.40q is not the number of an error; write it like 1014 or ROOST-1014. There are %s", given, errornumber.Ranges()))
	}
	return e, app.NotFound(fmt.Sprintf("there is no %s%s in this release; there are %s", errornumber.Prefix, digits, errornumber.Ranges()))
}

func (a *group) printErrors() error {
	all := errornumber.All()
	if a.JSON() {
		return a.PrintJSON(struct {
			Errors []errornumber.Entry `json:"errors"`
		}{all})
	}
	var rows [][]any
	for _, e := range all {
		rows = append(rows, []any{e.Number, e.Codes(), e.Statuses(), e.Outcome.String(), e.Repeat, e.Meaning})
	}
	return a.PrintTable([]string{"NUMBER", "CODE", "HTTP", "OUTCOME", "REPEAT", "MEANING"}, rows)
}

func (a *group) printError(e *errornumber.Entry) error {
	lines := []string{fmt.Sprintf("%s  %s", e.Number, e.Meaning)}
	for _, part := range [][2]string{
		{"code", e.Codes() + ", HTTP status " + e.Statuses()},
		{"outcome", e.Outcome.String() + ": " + errornumber.Meaning(e.Outcome)},
		{"repeat", string(e.Repeat) + ": " + e.Repeat.Text()},
		{"causes", e.Causes},
		{"what to do", e.Action},
	} {
		name := part[0]
		for line := range strings.Lines(text.WrapSoft(part[1], errorWidth)) {
			lines = append(lines, strings.TrimRight(fmt.Sprintf("%-10s  %s", name, line), " \n"))
			name = ""
		}
	}
	return a.PrintLines(lines)
}

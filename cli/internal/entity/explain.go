package entity

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/adminclient"
	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
)

func (a *group) explainCommand() *cobra.Command {
	var stack bool
	cmd := &cobra.Command{
		Use: "explain TYPE/ID | TYPE ID", Short: "Explain why an entity's commands wait or fail", Args: cobra.RangeArgs(1, 2),
		Example: "  roost entity explain Cart/anna\n  roost entity explain Cart anna --stack    # with the stack of the turn that runs",
		Long: `Finds the cause that keeps a command for an entity from being executed now. The first line after the
name of the entity is the cause, and the next line is the remedy. Then come the other
findings, and the answers of the processes on the way of a command. They are all queried
at the same time, and have 60 ms to answer. Silence is a finding, too. If the entity waits for others, by
a turn that asks or by sends that fail, their causes follow, up to those that wait for no other.

If nothing is wrong, the first line is the state of the entity. Any coordinator and any gateway
can answer, at its management address (--admin): also a standby, and also while no coordinator
is active.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			typ, id, err := app.EntityOf(args, "TYPE/ID or TYPE ID")
			if err != nil {
				return err
			}
			client, err := a.diagnosisClient()
			if err != nil {
				return err
			}
			res, err := client.Explain(cmd.Context(), &diagnosisv1.ExplainRequest{Type: typ, Id: id, Stack: stack})
			if err != nil {
				return err
			}
			a.followExplain(cmd.Context(), client, res)
			if a.JSON() {
				return a.PrintMessage(res)
			}
			return a.PrintLines(describeExplain(res))
		},
	}
	cmd.Flags().BoolVar(&stack, "stack", false, "show where the turn that runs is; the region stops for a moment to find out")
	return cmd
}

// diagnosisClient returns a client for all processes that explain entities.
func (a *group) diagnosisClient() (*adminclient.Diagnosis, error) {
	urls, err := a.URLs(a.Admin, "admin", (*cluster.State).Diagnosis)
	if err != nil {
		return nil, err
	}
	options, err := a.AdminOptions()
	if err != nil {
		return nil, err
	}
	return adminclient.NewDiagnosisWith(options, urls...), nil
}

func describeExplain(res *diagnosisv1.ExplainResponse) (lines []string) {
	name := phrase.Named(res.Type + "/" + res.Id)
	if res.Index != nil {
		name += fmt.Sprintf("  shard %d", *res.Index)
	}
	lines = append(lines, name)
	for i, f := range res.Findings {
		if i == 1 {
			lines = append(lines, "also:")
		}
		lines = append(lines, indent(i > 0)+f.Name+": "+phrase.Printable(f.Text))
		if f.Next != "" {
			lines = append(lines, indent(i > 0)+"  do: "+phrase.Printable(f.Next))
		}
	}
	lines = append(lines, fmt.Sprintf("asked by %s, in %s:", res.By, micros(res.TookUs)))
	for _, p := range res.Parties {
		who := p.Role + " " + p.Name
		if p.Name != p.Addr {
			who += " (" + p.Addr + ")"
		}
		how := p.Result + " after " + micros(p.TookUs)
		if p.Error != "" {
			how += ": " + phrase.Printable(p.Error)
		}
		lines = append(lines, "  "+who+"  "+how)
		for _, fact := range p.Facts {
			lines = append(lines, "    "+phrase.Printable(fact))
		}
	}
	for _, f := range res.Followed {
		lines = append(lines, phrase.Printable(f.Because))
		switch {
		case f.Explained == nil:
			lines = append(lines, "  "+phrase.Printable(f.Error))
		case len(f.Explained.Findings) > 0:
			first := f.Explained.Findings[0]
			lines = append(lines, "  "+phrase.Named(f.Explained.Type+"/"+f.Explained.Id)+": "+first.Name+": "+phrase.Printable(first.Text))
			if first.Next != "" {
				lines = append(lines, "    do: "+phrase.Printable(first.Next))
			}
		}
	}
	if res.Stack != "" {
		lines = append(lines, "the turn that runs:", strings.TrimRight(res.Stack, "\n"))
	}
	return lines
}

func indent(so bool) string {
	if so {
		return "  "
	}
	return ""
}

func micros(us int64) string {
	return fmt.Sprintf("%.1f ms", float64(us)/float64(time.Millisecond/time.Microsecond))
}

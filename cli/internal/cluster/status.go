package cluster

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/phrase"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "List members and gateways", Args: cobra.NoArgs,
		Long: `Lists the members as the active coordinator sees them, and the gateways, which are no
members: how many commands they have ended per second, how many of these were refused or have an
unknown outcome, and what 50 and 99 of 100 commands did not exceed. SHARDS is followed by the
capacity of a region that has one. LOAD is the load of a region's shards, in processors, as the
strategy load counts it, and the number of processors that the strategy divides it by; - as long as it has not
reported it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := a.AdminClient()
			if err != nil {
				return err
			}
			res, err := admin.Members(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintMessage(res)
			}
			var rows [][]any
			for _, m := range res.Members {
				shards, load := any(m.Shards), "-"
				if !phrase.IsRegion(m) {
					shards = "-"
				}
				if m.Capacity > 0 {
					shards = fmt.Sprintf("%d of %d", m.Shards, m.Capacity)
				}
				if m.Load != nil {
					load = fmt.Sprintf("%.2f", m.Load.Cost)
					if m.Load.Divisor > 0 {
						load += fmt.Sprintf(" of %.3g", m.Load.Divisor)
					}
				}
				rows = append(rows, []any{m.Name, strings.Join(m.Roles, ","), phrase.MemberState(m), shards, load, phrase.OrDash(m.Zone), phrase.OrDash(m.AppVersion), m.Addr})
			}
			header := []string{"NAME", "ROLE", "STATE", "SHARDS", "LOAD", "ZONE", "VERSION", "ADDRESS"}
			if err := a.PrintTable(header, rows, "SHARDS", "LOAD"); err != nil {
				return err
			}
			if err := a.printGateways(res); err != nil {
				return err
			}
			for _, q := range res.Quarantined {
				if _, err := fmt.Fprintf(a.Out, "refused permanently: %s: %s\n", q.Node, q.Reason); err != nil {
					return err
				}
			}
			for _, s := range sharedNames(res.Members) {
				if _, err := fmt.Fprintln(a.Out, "warning: "+s); err != nil {
					return err
				}
			}
			if res.Freeze != nil {
				if _, err := fmt.Fprintln(a.Out, phrase.Freeze(res.Freeze)); err != nil {
					return err
				}
			}
			if res.Brake != nil {
				if _, err := fmt.Fprintln(a.Out, phrase.Brake(res.Brake)); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(a.Out, "active coordinator: %s, term %d\n", res.Self, res.Term)
			return err
		},
	}
}

// printGateways shows how the users of each gateway fare.
func (a *group) printGateways(res *adminv1.MembersResponse) error {
	if len(res.Gateways) == 0 {
		return nil
	}
	var rows [][]any
	for _, g := range res.Gateways {
		rows = append(rows, []any{g.Addr, fmt.Sprintf("%.1f/s", g.Commands), fmt.Sprintf("%.1f/s", g.Refused), latency(g.P50Us), latency(g.P99Us), g.Management})
	}
	if _, err := fmt.Fprintln(a.Out); err != nil {
		return err
	}
	if err := a.PrintTable([]string{"GATEWAY", "COMMANDS", "REFUSED", "P50", "P99", "MANAGEMENT"}, rows, "COMMANDS", "REFUSED", "P50", "P99"); err != nil {
		return err
	}
	if res.UsualP99Us == 0 {
		return nil
	}
	_, err := fmt.Fprintf(a.Out, "p99 at all gateways: %s, usually %s\n", latency(res.P99Us), latency(res.UsualP99Us))
	return err
}

func latency(us int64) string {
	if us == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", float64(us)/1e3)
}

// sharedNames returns warnings about names that several reachable members have.
func sharedNames(members []*adminv1.Member) []string {
	var warnings []string
	bearers := map[string][]string{}
	for _, m := range members {
		if m.Name != "" && m.Reachable && m.Status != "exiting" && m.Status != "down" {
			bearers[m.Name] = append(bearers[m.Name], m.Addr)
		}
	}
	for _, m := range members {
		if addrs := bearers[m.Name]; len(addrs) > 1 {
			warnings = append(warnings, fmt.Sprintf("%s is the name of %d members, at %s: give each process a node.name of its own, or stop the one that is too many",
				m.Name, len(addrs), strings.Join(addrs, " and ")))
			delete(bearers, m.Name)
		}
	}
	return warnings
}

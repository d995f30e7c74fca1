package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/adminclient"
)

func (a *app) membersCommand() *cobra.Command {
	return &cobra.Command{
		Use: "members", Aliases: []string{"m"}, Short: "List the members of the cluster", Args: cobra.NoArgs,
		Long: `Lists the members as the active coordinator sees them, and the gateways, which are no
members: how many commands they have ended per second, how many of these were refused or have an
unknown outcome, and what 50 and 99 of 100 commands did not exceed. SHARDS is followed by the
capacity of a region that has one. LOAD is what the shards of a region take of it, in processors,
as the strategy load counts it; - as long as it has not reported it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := a.adminClient()
			if err != nil {
				return err
			}
			res, err := admin.Members(cmd.Context())
			if err != nil {
				return err
			}
			if a.json() {
				return a.printMessage(res)
			}
			var rows [][]any
			for _, m := range res.Members {
				shards, load := any(m.Shards), "-"
				if !isRegion(m) {
					shards = "-"
				}
				if m.Capacity > 0 {
					shards = fmt.Sprintf("%d of %d", m.Shards, m.Capacity)
				}
				if m.Load != nil {
					load = fmt.Sprintf("%.2f", m.Load.Cost)
				}
				rows = append(rows, []any{m.Name, strings.Join(m.Roles, ","), memberState(m), shards, load, orDash(m.Zone), orDash(m.AppVersion), m.Addr})
			}
			header := []string{"NAME", "ROLE", "STATE", "SHARDS", "LOAD", "ZONE", "VERSION", "ADDRESS"}
			if err := a.printTable(header, rows, "SHARDS", "LOAD"); err != nil {
				return err
			}
			if err := a.printGateways(res); err != nil {
				return err
			}
			for _, q := range res.Quarantined {
				if _, err := fmt.Fprintf(a.out, "refused permanently: %s: %s\n", q.Node, q.Reason); err != nil {
					return err
				}
			}
			for _, s := range sharedNames(res.Members) {
				if _, err := fmt.Fprintln(a.out, "warning: "+s); err != nil {
					return err
				}
			}
			if res.Freeze != nil {
				if _, err := fmt.Fprintln(a.out, describeFreeze(res.Freeze)); err != nil {
					return err
				}
			}
			if res.Brake != nil {
				if _, err := fmt.Fprintln(a.out, describeBrake(res.Brake)); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(a.out, "active coordinator: %s, term %d\n", res.Self, res.Term)
			return err
		},
	}
}

// printGateways shows how the users of each gateway fare.
func (a *app) printGateways(res *adminv1.MembersResponse) error {
	if len(res.Gateways) == 0 {
		return nil
	}
	var rows [][]any
	for _, g := range res.Gateways {
		rows = append(rows, []any{g.Addr, fmt.Sprintf("%.1f/s", g.Commands), fmt.Sprintf("%.1f/s", g.Refused), latency(g.P50Us), latency(g.P99Us), g.Management})
	}
	if _, err := fmt.Fprintln(a.out); err != nil {
		return err
	}
	if err := a.printTable([]string{"GATEWAY", "COMMANDS", "REFUSED", "P50", "P99", "MANAGEMENT"}, rows, "COMMANDS", "REFUSED", "P50", "P99"); err != nil {
		return err
	}
	if res.UsualP99Us == 0 {
		return nil
	}
	_, err := fmt.Fprintf(a.out, "p99 at all gateways: %s, usually %s\n", latency(res.P99Us), latency(res.UsualP99Us))
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

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func isRegion(m *adminv1.Member) bool {
	for _, role := range m.Roles {
		if role == "region" {
			return true
		}
	}
	return false
}

// memberState returns a member's state in the terms of an operator.
func memberState(m *adminv1.Member) string {
	state := m.Status
	if m.Active {
		state += ", active"
	}
	if m.Draining {
		state += ", draining"
	}
	if m.Cordoned {
		state += ", cordoned"
	}
	if !m.Reachable {
		state += ", unreachable"
	}
	return state
}

func (a *app) shardsCommand() *cobra.Command {
	var typ, region string
	var entities bool
	var l listed
	var timeout queryTimeout
	cmd := &cobra.Command{
		Use: "shards", Aliases: []string{"s"}, Short: "List which region owns which shard", Args: cobra.NoArgs,
		Example: "  roost shards --type Cart\n  roost shards --entities --region region-2",
		Long: `Lists the shards that have been allocated. A shard is allocated when the first command for it arrives.
CAUSE is why the shard is at the region, or why it leaves while it is handing-off: - if an earlier
release has decided that. roost why TYPE/SHARD says more.

With --entities, it asks the owners what they have of each shard in memory: entities and their size,
commands per second, how long handlers run in percent of one processor, and commands that wait. This
list is read page by page; --limit, --after and --query-timeout are for it. Owners that do not answer in
time are named, and their shards have - in the columns.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if entities {
				ms, err := timeout.ms()
				if err != nil {
					return err
				}
				return a.shardStates(cmd, &adminv1.ShardStatesRequest{Type: typ, Region: region, TimeoutMs: ms}, &l)
			}
			for _, flag := range []string{"limit", "after", "query-timeout"} {
				if cmd.Flags().Changed(flag) {
					return usageError{fmt.Errorf("--%s is for --entities", flag)}
				}
			}
			admin, err := a.adminClient()
			if err != nil {
				return err
			}
			res, err := admin.Shards(cmd.Context(), typ, region)
			if err != nil {
				return err
			}
			return a.printShards(cmd.Context(), admin, res, region)
		},
	}
	cmd.Flags().StringVar(&typ, "type", "", "only this entity type")
	cmd.Flags().StringVar(&region, "region", "", "only shards of this region")
	cmd.Flags().BoolVar(&entities, "entities", false, "what the owners have of each shard in memory")
	cmd.Flags().Uint32Var(&l.limit, "limit", 10_000, "with --entities: how many shards to list")
	cmd.Flags().StringVar(&l.after, "after", "", "with --entities: go on where the listing before ended, as it says")
	timeout.flag(cmd)
	return cmd
}

// printShards prints the route table, or that part of it that a region has.
func (a *app) printShards(ctx context.Context, admin *adminclient.Client, res *adminv1.ShardsResponse, region string) error {
	if a.json() {
		return a.printMessage(res)
	}
	if len(res.Shards) == 0 && region != "" {
		if err := a.checkRegion(ctx, admin, region); err != nil {
			return err
		}
	}
	var rows [][]any
	unregistered := 0
	for _, s := range res.Shards {
		name := s.Region
		if name == s.Addr && s.Reason == "" {
			name = "-"
			unregistered++
		}
		if s.Reason != "" {
			name = "-"
		}
		rows = append(rows, []any{s.Type, s.Index, name, cmp.Or(s.Reason, s.Phase), orDash(s.Cause), s.Epoch, cmp.Or(s.Addr, "-")})
	}
	if err := a.printTable([]string{"TYPE", "SHARD", "REGION", "PHASE", "CAUSE", "EPOCH", "ADDRESS"}, rows, "SHARD", "EPOCH"); err != nil {
		return err
	}
	for _, t := range res.Types {
		kind := ""
		if t.Volatile {
			kind = ", volatile"
		}
		if t.ShardedBy != "" {
			kind += ", sharded by " + t.ShardedBy
		}
		if _, err := fmt.Fprintf(a.out, "%s: %d of %d shards allocated, %d moving%s\n", t.Type, t.Allocated, t.Shards, t.Moving, kind); err != nil {
			return err
		}
	}
	for _, u := range res.Unreadable {
		if _, err := fmt.Fprintln(a.out, describeUnreadable(u)); err != nil {
			return err
		}
	}
	if unregistered > 0 {
		_, err := fmt.Fprintf(a.out, "-: %s of %s; see roost members\n", plural(unregistered, "shard"), unregisteredOwner)
		return err
	}
	return nil
}

// unregisteredOwner describes the owner of a shard of which the coordinator knows only
// the address.
const unregisteredOwner = "a region that is not registered: it comes back, or another region takes over"

// checkRegion returns an error for the name of a region that is not a member.
func (a *app) checkRegion(ctx context.Context, admin *adminclient.Client, region string) error {
	res, err := admin.Members(ctx)
	if err != nil {
		return err
	}
	for _, m := range res.Members {
		if isRegion(m) && (m.Name == region || m.Addr == region) {
			return nil
		}
	}
	return errUnknown{fmt.Sprintf("no region %s; see roost members", region)}
}

func (a *app) whereCommand() *cobra.Command {
	return &cobra.Command{
		Use: "where TYPE ID | TYPE/ID", Short: "Show which region has an entity", Args: cobra.RangeArgs(1, 2),
		Example: "  roost where Airport PHX\n  roost where Airport/PHX",
		RunE: func(cmd *cobra.Command, args []string) error {
			typ, id, err := entityOf(args, "TYPE ID or TYPE/ID, such as Airport/PHX")
			if err != nil {
				return err
			}
			admin, err := a.adminClient()
			if err != nil {
				return err
			}
			res, err := admin.Where(cmd.Context(), typ, id)
			if err != nil {
				return err
			}
			if a.json() {
				return a.printMessage(res)
			}
			s := res.Shard
			id = quoted(id)
			if res.ShardKey != "" {
				id += fmt.Sprintf("  (key %q)", res.ShardKey)
			}
			if s.GetReason() != "" {
				_, err = fmt.Fprintf(a.out, "%s/%s  shard %d  %s: no region reads what is stored of the shard; see roost shards --type %s\n", typ, id, s.Index, s.Reason, typ)
				return err
			}
			if s.GetRegion() == "" && s.GetAddr() == "" {
				_, err = fmt.Fprintf(a.out, "%s/%s  shard %d  unallocated: its first command will place it\n", typ, id, s.GetIndex())
				return err
			}
			if s.Region == s.Addr {
				_, err = fmt.Fprintf(a.out, "%s/%s  shard %d  %s, %s  epoch %s\n", typ, id, s.Index, s.Addr, unregisteredOwner, s.Epoch)
				return err
			}
			cause := ""
			if s.Cause != "" {
				cause = "  because " + sharding.CauseText(s.Cause)
			}
			_, err = fmt.Fprintf(a.out, "%s/%s  shard %d  %s (%s)  %s  epoch %s%s\n", typ, id, s.Index, s.Region, s.Addr, s.Phase, s.Epoch, cause)
			return err
		},
	}
}

// entityOf parses TYPE ID or TYPE/ID; want describes the accepted forms for errors.
func entityOf(args []string, want string) (typ, id string, err error) {
	ok := true
	if len(args) == 2 {
		typ, id = args[0], args[1]
	} else {
		typ, id, ok = strings.Cut(args[0], "/")
	}
	if !ok || typ == "" || id == "" {
		return "", "", usageError{fmt.Errorf("%q is not the name of an entity: write %s", strings.Join(args, " "), want)}
	}
	if err := (sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)}).Check(); err != nil {
		return "", "", usageError{err}
	}
	return typ, id, nil
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := node.BuildVersion("roost")
			if a.json() {
				return a.printJSON(v)
			}
			_, err := fmt.Fprintln(a.out, v)
			return err
		},
	}
}

package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/adminclient"
)

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

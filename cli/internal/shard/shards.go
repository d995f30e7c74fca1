package shard

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) listCommand() *cobra.Command {
	var typ, region string
	var entities bool
	var l app.Listed
	var timeout app.QueryTimeout
	cmd := &cobra.Command{
		Use: "ls", Short: "List shards and their regions", Args: cobra.NoArgs,
		Example: "  roost shard ls --type Cart\n  roost shard ls --entities --region region-2",
		Long: `Lists the shards that have been allocated. A shard is allocated when the first command for it arrives.
CAUSE is the reason for the shard's region, or for leaving it while it is handing-off: - if an earlier
release decided that. roost shard show TYPE/SHARD shows more.

With --entities, it asks the owners for the state of each shard in memory: entities and their size,
commands per second, how long handlers run in percent of one processor, and commands that wait. This
list is read page by page; --limit, --after and --query-timeout are for it. Owners that do not answer in
time are named, and their shards have - in the columns.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if entities {
				ms, err := timeout.Milliseconds()
				if err != nil {
					return err
				}
				return a.shardStates(cmd, &adminv1.ShardStatesRequest{Type: typ, Region: region, TimeoutMs: ms}, &l)
			}
			for _, flag := range []string{"limit", "after", "query-timeout"} {
				if cmd.Flags().Changed(flag) {
					return app.Usage(fmt.Errorf("--%s is for --entities", flag))
				}
			}
			admin, err := a.AdminClient()
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
	cmd.Flags().Uint32Var(&l.Limit, "limit", 10_000, "with --entities: how many shards to list")
	cmd.Flags().StringVar(&l.After, "after", "", "with --entities: go on where the listing before ended, as it says")
	timeout.Flag(cmd)
	return cmd
}

// printShards prints the route table, or that part of it that a region has.
func (a *group) printShards(ctx context.Context, admin *adminclient.Client, res *adminv1.ShardsResponse, region string) error {
	if a.JSON() {
		return a.PrintMessage(res)
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
		rows = append(rows, []any{s.Type, s.Index, name, cmp.Or(s.Reason, s.Phase), phrase.OrDash(s.Cause), s.Epoch, cmp.Or(s.Addr, "-")})
	}
	if err := a.PrintTable([]string{"TYPE", "SHARD", "REGION", "PHASE", "CAUSE", "EPOCH", "ADDRESS"}, rows, "SHARD", "EPOCH"); err != nil {
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
		if _, err := fmt.Fprintf(a.Out, "%s: %d of %d shards allocated, %d moving%s\n", t.Type, t.Allocated, t.Shards, t.Moving, kind); err != nil {
			return err
		}
	}
	for _, u := range res.Unreadable {
		if _, err := fmt.Fprintln(a.Out, phrase.Unreadable(u)); err != nil {
			return err
		}
	}
	if unregistered > 0 {
		_, err := fmt.Fprintf(a.Out, "-: %s of %s; see roost cluster status\n", phrase.Plural(unregistered, "shard"), unregisteredOwner)
		return err
	}
	return nil
}

// unregisteredOwner describes an owner of a shard if the coordinator knows only the
// owner's address.
const unregisteredOwner = "a region that is not registered: it comes back, or another region takes over"

// checkRegion returns an error for the name of a region that is not a member.
func (a *group) checkRegion(ctx context.Context, admin *adminclient.Client, region string) error {
	res, err := admin.Members(ctx)
	if err != nil {
		return err
	}
	for _, m := range res.Members {
		if phrase.IsRegion(m) && (m.Name == region || m.Addr == region) {
			return nil
		}
	}
	return app.NotFound(fmt.Sprintf("no region %s; see roost cluster status", region))
}

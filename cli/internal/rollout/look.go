package rollout

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) lookCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "look", Short: "Read the stored data of unreadable shards", Args: cobra.NoArgs,
		Long: `After a crash of a region, its shards may have anything in them that the region was
able to store. If no other region reads all of that, commands for these shards are
refused. This command has the coordinator read from the journal what is really stored
in them. A shard is served again if some region reads all of it. The others are listed.

Meanwhile no region can store anything in these shards. The coordinator lists all
entities of their types, and reads those in the shards, so it takes time.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.look(ctx)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait until everything is read; the coordinator continues after that")
	return cmd
}

// look repeats the request until all unreadable shards were looked at: another coordinator may have become active, which
// does not know of the request, or the journal may not have answered.
func (a *group) look(ctx context.Context) error {
	admin, err := a.AdminClient()
	if err != nil {
		return err
	}
	were := 0
	waiting := func(res *adminv1.LookResponse) int {
		return countShards(res.Unreadable, func(u *adminv1.Unreadable) bool { return !u.Looked })
	}
	all := func(res *adminv1.LookResponse) int {
		return countShards(res.Unreadable, func(*adminv1.Unreadable) bool { return true })
	}
	last, err := adminclient.Until(ctx, admin.Look, func(res *adminv1.LookResponse) bool {
		were = max(were, all(res))
		return waiting(res) == 0
	})
	switch {
	case err == nil:
		return a.printLook(last, were, all(last))
	case last == nil:
		return app.Ended(ctx, err, "no coordinator has answered in time: it is not known whether shards are looked at; run it again")
	}
	return app.Ended(ctx, err, phrase.Plural(waiting(last), "shard")+" still to be looked at; it continues, see the log of the coordinator")
}

func countShards(list []*adminv1.Unreadable, wanted func(*adminv1.Unreadable) bool) (n int) {
	for _, u := range list {
		if wanted(u) {
			n += len(u.Shards)
		}
	}
	return n
}

func (a *group) printLook(res *adminv1.LookResponse, were, left int) error {
	if a.JSON() {
		return a.PrintMessage(res)
	}
	lines := []string{"no shard is unreadable"}
	if were > 0 {
		lines[0] = fmt.Sprintf("%s looked at: %d can be read by a region and served again, %d cannot", phrase.Plural(were, "shard"), were-left, left)
	}
	for _, u := range res.Unreadable {
		lines = append(lines, phrase.Unreadable(u))
	}
	return a.PrintLines(lines)
}

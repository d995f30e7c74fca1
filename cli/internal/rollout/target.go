package rollout

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (a *group) targetCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "target VERSION", Short: "Set the target version of a rollout", Args: app.OneName,
		Long: `Makes a version that runs, or ran before, the target of a rollout: to go back to it,
or to go on with one that was gone back from. From then on shards that need a place go
to its regions. Nothing moves by this alone: replace the regions as well.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := sharding.CheckText("the version", args[0], sharding.MaxTypeLen); err != nil {
				return app.Usage(err)
			}
			return a.setTarget(ctx, args[0])
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait until it is durable")
	return cmd
}

func (a *group) setTarget(ctx context.Context, version string) error {
	admin, err := a.AdminClient()
	if err != nil {
		return err
	}
	res, err := admin.SetTarget(ctx, version, app.WhoAmI())
	if err != nil {
		return app.Unconfirmed(ctx, err)
	}
	return a.printTarget(res)
}

func (a *group) printTarget(res *adminv1.SetTargetResponse) error {
	if a.JSON() {
		return a.PrintMessage(res)
	}
	was, regions := "", "no region runs it yet, see what it reads with roost journal check"
	if res.NextTarget != "" {
		regions += fmt.Sprintf("; if none comes within %s, %s becomes the target", (time.Duration(res.NextTargetMs) * time.Millisecond).Round(time.Second), res.NextTarget)
	}
	if res.Before != "" && res.Before != res.Target {
		was = fmt.Sprintf(" (it was %s)", res.Before)
	}
	if len(res.Regions) > 0 {
		regions = "it runs in " + strings.Join(res.Regions, ",")
	}
	lines := []string{fmt.Sprintf("the target is %s%s; %s", res.Target, was, regions)}
	if res.Unread > 0 {
		lines = append(lines, fmt.Sprintf("no region of %s reads all that may be stored in %s of other versions: as long as one of those runs it keeps them, and then their commands are refused", res.Target, phrase.Plural(int(res.Unread), "shard")))
	}
	return a.PrintLines(lines)
}

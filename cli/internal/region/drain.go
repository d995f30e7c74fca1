package region

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

func (a *group) drainCommand() *cobra.Command {
	req := &adminv1.DrainRequest{By: app.WhoAmI()}
	var dryRun bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "drain REGION", Short: "Move all shards off a region", Args: app.OneName,
		Long: `Moves all shards off a region and waits until none is left; new shards go
elsewhere. Then the region can be stopped without interrupting any client.
The drain lasts until the region ends, whichever coordinator is active;
--undo lets shards come back. roost placement plan --without REGION shows where they would go.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			req.Region = args[0]
			if dryRun {
				return a.wouldDrain(ctx, req)
			}
			return a.drain(ctx, req)
		},
	}
	cmd.Flags().BoolVar(&req.Resume, "undo", false, "end the drain")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would happen; change nothing")
	cmd.Flags().StringVar(&req.Reason, "reason", "", app.ReasonHelp)
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait for the last shard; the drain continues after that")
	return cmd
}

// wouldDrain prints what a drain would do, or what ending it would do.
func (a *group) wouldDrain(ctx context.Context, req *adminv1.DrainRequest) error {
	admin, err := a.AdminClient()
	if err != nil {
		return err
	}
	region := req.Region
	req.DryRun = true
	res, err := admin.Drain(ctx, req)
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.PrintMessage(res)
	}
	text := region + " takes shards again"
	if !req.Resume {
		text = fmt.Sprintf("all shards move off %s: %s", region, shardsLeft(res))
	}
	if res.Already {
		return a.PrintLines([]string{text + app.SoBefore})
	}
	return a.PrintLines([]string{app.Afterwards + text})
}

type drained struct {
	Region    string `json:"region"`
	Draining  bool   `json:"draining"`
	Remaining uint32 `json:"remaining"`
	Millis    int64  `json:"took_ms"`
}

func (a *group) drain(ctx context.Context, req *adminv1.DrainRequest) error {
	region := req.Region
	admin, err := a.AdminClient()
	if err != nil {
		return err
	}
	begin := time.Now()
	last, err := admin.Drain(ctx, &adminv1.DrainRequest{Region: region, Resume: req.Resume, By: req.By, Reason: req.Reason})
	switch {
	case err != nil:
		return app.Unconfirmed(ctx, err)
	case req.Resume && a.JSON():
		return a.PrintJSON(drained{Region: region, Remaining: last.Remaining})
	case req.Resume:
		before := ""
		if last.Already {
			before = app.SoBefore
		}
		_, err = fmt.Fprintf(a.Out, "%s takes shards again%s\n", region, before)
		return err
	}
	process := region
	if last.Node != "" { // another process with the same name may come
		process = last.Node
	}
	if last, err = a.drainEnds(ctx, admin, region, process, last); err != nil {
		if ctx.Err() == nil {
			fmt.Fprintf(a.Err, "%s was %s when this began\n", region, process)
			return err
		}
		return app.Ended(ctx, err, fmt.Sprintf("%s: %s; the drain continues", region, shardsLeft(last)))
	}
	took := time.Since(begin)
	if a.JSON() {
		return a.PrintJSON(drained{Region: region, Draining: true, Millis: took.Milliseconds()})
	}
	_, err = fmt.Fprintf(a.Out, "%s has no shards left and can be stopped (%.1f s); roost region drain %s --undo lets them come back\n",
		region, took.Seconds(), region)
	return err
}

// drainEnds waits until a process has no shards left. It returns the last answer.
func (a *group) drainEnds(ctx context.Context, admin *adminclient.Client, region, process string, last *adminv1.DrainResponse) (*adminv1.DrainResponse, error) {
	said := ""
	ended := func(res *adminv1.DrainResponse) bool {
		last = res
		if res.Remaining == 0 {
			return true
		}
		if left := shardsLeft(res); left != said {
			said = left
			fmt.Fprintf(a.Err, "draining %s: %s\n", region, left)
		}
		return false
	}
	if ended(last) {
		return last, nil
	}
	_, err := adminclient.Until(ctx, func(ctx context.Context) (*adminv1.DrainResponse, error) {
		return admin.UnmovableShards(ctx, process)
	}, ended)
	return last, err
}

// shardsLeft describes how many shards a draining region still has, and why some stay.
func shardsLeft(d *adminv1.DrainResponse) string {
	text := phrase.Plural(int(d.Remaining), "shard") + " left"
	for _, u := range d.Stays {
		stay := fmt.Sprintf("; of type %s, %s cannot move (%s): ", u.Type, phrase.Plural(len(u.Shards), "shard"), phrase.SomeOf(u.Shards))
		if u.Region == "" {
			text += stay + "there is no other region that could be given them"
			continue
		}
		text += stay + phrase.Missing(u)
	}
	return text
}

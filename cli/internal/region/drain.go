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
	begin, said, before := time.Now(), "", ""
	answered := false
	req = &adminv1.DrainRequest{Region: region, Resume: req.Resume, By: req.By, Reason: req.Reason} // what is repeated names a process
	last, err := adminclient.Until(ctx, func(ctx context.Context) (*adminv1.DrainResponse, error) {
		res, err := admin.Drain(ctx, req)
		if err == nil && res.Node != "" {
			req.Region = res.Node
		}
		if err == nil && res.Stored { // another operator may drain it for another reason meanwhile
			req.Reason = ""
		}
		if err == nil && !answered { // a repeat would find what this request has done
			answered = true
			if res.Already {
				before = app.SoBefore
			}
		}
		return res, err
	}, func(res *adminv1.DrainResponse) bool {
		if res.Stored && (req.Resume || res.Remaining == 0) {
			return true
		}
		if req.Resume || res.Remaining == 0 {
			return false
		}
		if left := shardsLeft(res); left != said {
			said = left
			fmt.Fprintf(a.Err, "draining %s: %s\n", region, left)
		}
		return false
	})
	switch {
	case err != nil && last == nil && req.Region != region && ctx.Err() == nil:
		fmt.Fprintf(a.Err, "%s was %s when this began\n", region, req.Region)
		return err
	case err != nil && last == nil:
		return app.Ended(ctx, err, fmt.Sprintf("no coordinator has answered in time: it is not known whether %s is drained; run it again", region))
	case err != nil && (req.Resume || last.Remaining == 0):
		return app.Ended(ctx, err, fmt.Sprintf("it is not known whether the request about %s is stored; run it again", region))
	case err != nil:
		return app.Ended(ctx, err, fmt.Sprintf("%s: %s; the drain continues", region, shardsLeft(last)))
	case req.Resume && a.JSON():
		return a.PrintJSON(drained{Region: region, Remaining: last.Remaining})
	case req.Resume:
		_, err = fmt.Fprintf(a.Out, "%s takes shards again%s\n", region, before)
		return err
	}
	took := time.Since(begin)
	if a.JSON() {
		return a.PrintJSON(drained{Region: region, Draining: true, Millis: took.Milliseconds()})
	}
	_, err = fmt.Fprintf(a.Out, "%s has no shards left and can be stopped (%.1f s); roost region drain %s --undo lets them come back\n",
		region, took.Seconds(), region)
	return err
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

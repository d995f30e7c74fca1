package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// drainPoll is the pause between two requests for the progress of a drain.
const drainPoll = 100 * time.Millisecond

func (a *app) drainCommand() *cobra.Command {
	var resume bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "drain REGION", Short: "Move all shards off a region", Args: oneName,
		Long: `Moves all shards off a region and waits until none is left; new shards go
elsewhere. Then the region can be stopped without interrupting any client.
The drain lasts until the region ends, whichever coordinator is active;
--resume lets shards come back.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.drain(ctx, args[0], resume)
		},
	}
	cmd.Flags().BoolVar(&resume, "resume", false, "end the drain")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait for the last shard; the drain goes on after that")
	return cmd
}

type drained struct {
	Region    string `json:"region"`
	Draining  bool   `json:"draining"`
	Remaining uint32 `json:"remaining"`
	Millis    int64  `json:"took_ms"`
}

func (a *app) drain(ctx context.Context, region string, resume bool) error {
	admin, err := a.adminClient()
	if err != nil {
		return err
	}
	begin := time.Now()
	last, err := admin.Drain(ctx, region, resume)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return timeoutError{fmt.Errorf("no coordinator has answered in time: it is not known whether %s is drained; run it again", region)}
	case err != nil && ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return err
	}
	if resume {
		if a.json() {
			return a.printJSON(drained{Region: region, Remaining: last.Remaining})
		}
		_, err = fmt.Fprintf(a.out, "%s takes shards again\n", region)
		return err
	}
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	for said := ""; last.Remaining > 0; {
		if left := shardsLeft(last); left != said {
			said = left
			fmt.Fprintf(a.err, "draining %s: %s\n", region, left)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return timeoutError{fmt.Errorf("%s: %s; the drain goes on", region, shardsLeft(last))}
			}
			return errInterrupted
		}
		// The request is repeated, because a coordinator that ended has perhaps not stored
		// it.
		if now, err := admin.Drain(ctx, region, false); err == nil {
			last = now
		} else if ctx.Err() == nil {
			return err
		}
	}
	took := time.Since(begin)
	if a.json() {
		return a.printJSON(drained{Region: region, Draining: true, Millis: took.Milliseconds()})
	}
	_, err = fmt.Fprintf(a.out, "%s has no shards left and can be stopped (%.1f s); roost drain %s --resume lets them come back\n",
		region, took.Seconds(), region)
	return err
}

// shardsLeft says how many shards a region that is drained has, and why some stay.
func shardsLeft(d *adminv1.DrainResponse) string {
	text := plural(int(d.Remaining), "shard") + " left"
	for _, u := range d.Stays {
		stay := fmt.Sprintf("; of type %s, %s cannot move (%s): ", u.Type, plural(len(u.Shards), "shard"), someOf(u.Shards))
		if u.Region == "" {
			text += stay + "there is no other region that could be given them"
			continue
		}
		text += stay + missing(u)
	}
	return text
}

package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/twitchtv/twirp"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/adminclient"
)

// steer is what all commands have by which operators steer placement.
type steer struct {
	reason  string
	dryRun  bool
	ahead   bool
	timeout time.Duration
}

// reasonHelp describes --reason of all requests.
const reasonHelp = "why, for those who see it later; kept and shown with who asked"

// afterwards begins what a dry run says: how it would be.
const afterwards = "nothing is changed; without --dry-run it would be so: "

// soBefore is added to what a request says if the request changes nothing.
const soBefore = "; it was so before"

func (s *steer) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.reason, "reason", "", reasonHelp)
	cmd.Flags().BoolVar(&s.dryRun, "dry-run", false, "only say what would happen; change nothing")
	cmd.Flags().DurationVar(&s.timeout, "timeout", 10*time.Second, "how long to wait until it is stored")
}

func (s *steer) aheadFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.ahead, "ahead", false, "also for a name that no region has now")
}

// steer asks the coordinator again and again until it has stored what is wanted: a coordinator
// that ended has perhaps not stored it. done returns the text to print then.
func (a *app) steer(ctx context.Context, s *steer, ask func(context.Context, *adminclient.Client) (*adminv1.SteerResponse, error), done func(*adminv1.SteerResponse) string) error {
	admin, err := a.adminClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if s.dryRun {
		res, err := ask(ctx, admin)
		if err != nil {
			return err
		}
		return a.printSteer(res, true, done(res))
	}
	res, err := adminclient.UntilStored(ctx, func(ctx context.Context) (*adminv1.SteerResponse, error) { return ask(ctx, admin) })
	if err != nil {
		text := "it is not known whether this is stored; run it again"
		var refused twirp.Error
		if errors.As(err, &refused) {
			text += ". The last answer was: " + refused.Msg()
		}
		return ended(ctx, err, text)
	}
	return a.printSteer(res, false, done(res))
}

func (a *app) printSteer(res *adminv1.SteerResponse, dryRun bool, text string) error {
	if a.json() {
		return a.printMessage(res)
	}
	switch {
	case res.Already:
		text += soBefore
	case dryRun:
		text = afterwards + text
	}
	return a.printLines(append([]string{text}, res.Remarks...))
}

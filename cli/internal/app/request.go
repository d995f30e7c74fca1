package app

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// Steer holds the flags that all commands for steering placement share.
type Steer struct {
	Reason  string
	DryRun  bool
	Ahead   bool
	Undo    bool
	timeout time.Duration
}

// ReasonHelp describes --reason of all requests.
const ReasonHelp = "why, for those who see it later; kept and shown with who asked"

// Afterwards begins what a dry run says: how it would be.
const Afterwards = "nothing is changed; without --dry-run it would be so: "

// SoBefore is added to what a request says if the request changes nothing.
const SoBefore = "; it was so before"

// Flags adds the flags of all requests.
func (s *Steer) Flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.Reason, "reason", "", ReasonHelp)
	cmd.Flags().BoolVar(&s.DryRun, "dry-run", false, "only say what would happen; change nothing")
	cmd.Flags().DurationVar(&s.timeout, "timeout", 10*time.Second, "how long to wait until it is stored")
}

// AheadFlag adds the flag --ahead.
func (s *Steer) AheadFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.Ahead, "ahead", false, "also for a name that no region has now")
}

// UndoFlag adds the flag --undo, which ends what the command began.
func (s *Steer) UndoFlag(cmd *cobra.Command, help string) {
	cmd.Flags().BoolVar(&s.Undo, "undo", false, help)
}

// Steer asks the coordinator again and again until it has stored what is wanted: a coordinator
// that ended has perhaps not stored it. done returns the text to print then.
func (a *App) Steer(ctx context.Context, s *Steer, ask func(context.Context, *adminclient.Client) (*adminv1.SteerResponse, error), done func(*adminv1.SteerResponse) string) error {
	admin, err := a.AdminClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if s.DryRun {
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
		return Ended(ctx, err, text)
	}
	return a.printSteer(res, false, done(res))
}

func (a *App) printSteer(res *adminv1.SteerResponse, dryRun bool, text string) error {
	if a.JSON() {
		return a.PrintMessage(res)
	}
	switch {
	case res.Already:
		text += SoBefore
	case dryRun:
		text = Afterwards + text
	}
	return a.PrintLines(append([]string{text}, res.Remarks...))
}

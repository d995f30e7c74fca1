package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

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
	cmd.Flags().DurationVar(&s.timeout, "timeout", 10*time.Second, "how long to wait until it is durable")
}

// AheadFlag adds the flag --ahead.
func (s *Steer) AheadFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.Ahead, "ahead", false, "also for a name that no region has now")
}

// UndoFlag adds the flag --undo, which ends what the command began.
func (s *Steer) UndoFlag(cmd *cobra.Command, help string) {
	cmd.Flags().BoolVar(&s.Undo, "undo", false, help)
}

// Steer makes a request. The coordinator answers when it is durable. done returns the text to print then.
func (a *App) Steer(ctx context.Context, s *Steer, ask func(context.Context, *adminclient.Client) (*adminv1.SteerResponse, error), done func(*adminv1.SteerResponse) string) error {
	admin, err := a.AdminClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	res, err := ask(ctx, admin)
	if err != nil {
		return Unconfirmed(ctx, err)
	}
	return a.printSteer(res, s.DryRun, done(res))
}

// Unconfirmed returns the error of a request of an operator. If the request may take effect, the command has timed out
// and can be run again.
func Unconfirmed(ctx context.Context, err error) error {
	if errors.Is(err, adminclient.ErrUnknownOutcome) {
		return TimedOut(fmt.Errorf("%w; run it again", err))
	}
	return Ended(ctx, err, "no coordinator has answered in time, so nothing is requested; run it again")
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

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	membershipv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/membership"
)

func (a *group) eventsCommand() *cobra.Command {
	var follow, all bool
	cmd := &cobra.Command{
		Use: "events", Short: "Print membership events", Args: cobra.NoArgs,
		Long: `Prints what happened to the membership as one coordinator saw it: its newest
thousand events or so, and with -f every event that follows. If events are missing,
because that coordinator is gone or this command was too slow, a line says so and
the present members follow.`,
		Example: "  roost cluster events -f\n  roost cluster events -o json | jq -c 'select(.kind==\"unreachable\")'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.membershipClient()
			if err != nil {
				return err
			}
			return a.events(cmd.Context(), client, follow, all)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until Ctrl-C")
	cmd.Flags().BoolVar(&all, "all", false, "also what only the coordinator that answers sees, such as its own suspicions")
	return cmd
}

func (a *group) events(ctx context.Context, client *adminclient.Membership, follow, all bool) error {
	var last *membershipv1.EventsResponse
	for {
		res, err := client.Events(ctx, last)
		switch {
		case ctx.Err() != nil:
			return app.ErrInterrupted
		case err != nil && last != nil && errors.Is(err, adminclient.ErrUnreachable):
			if err := pause(ctx, leavePoll); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		if last != nil && res.Resync {
			err = a.resync(last, res)
		} else {
			err = a.printEvents(res.Events, all)
		}
		if err != nil || !follow {
			return err
		}
		last = res
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return app.ErrInterrupted
	}
}

// resync prints that events are missing, and the current members.
func (a *group) resync(last, res *membershipv1.EventsResponse) error {
	if a.JSON() {
		return a.PrintMessage(res)
	}
	why := fmt.Sprintf("%d events are missing", res.Missed)
	if last.Stream != res.Stream {
		why = "another coordinator answers, " + res.Stream + "; events may be missing"
	}
	if _, err := fmt.Fprintf(a.Out, "-- %s; the members now:\n", why); err != nil {
		return err
	}
	for _, m := range res.Members {
		if _, err := fmt.Fprintf(a.Out, "--   %s  %s  %s\n", name(m), phrase.MemberState(&adminv1.Member{Status: m.Status, Reachable: m.Reachable}), m.Addr); err != nil {
			return err
		}
	}
	return nil
}

func (a *group) printEvents(events []*membershipv1.Event, all bool) error {
	for _, e := range events {
		if e.ByMe && !all {
			continue
		}
		var err error
		if a.JSON() {
			err = a.PrintMessage(e)
		} else {
			_, err = fmt.Fprintln(a.Out, eventLine(e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eventLine returns an event as text.
func eventLine(e *membershipv1.Event) string {
	who, addr := e.Name, e.Node
	if who == "" {
		who, addr = e.Node, ""
	}
	what := map[string]string{
		"leader": "leads", "gone": "is gone", "replaced": "was started again", "asked-to-leave": "is requested to leave",
		"not-let-in": "is not let in", "join-failed": "does not join", "left": "has left",
		"yields-lease": "gives its lease up",
	}[e.Kind]
	if what == "" {
		what = "is " + e.Kind
	}
	switch {
	case e.Kind == "name-shared":
		what = "is the name of several members"
	case e.Node == "":
		who, what = e.Kind, ""
	}
	line := time.UnixMilli(e.AtUnixMs).Format("15:04:05.000") + "  " + strings.TrimSpace(who+" "+what)
	if e.ByMe {
		line += " in the eyes of this coordinator"
	}
	if e.Text != "" {
		line += ": " + e.Text
	}
	if addr != "" {
		line += "  (" + addr + ")"
	}
	return line
}

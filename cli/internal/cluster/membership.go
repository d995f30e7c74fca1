package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/cli/internal/app"
	membershipv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/membership"
	"github.com/roost-cluster/roost/sdk/adminclient"
)

// leavePoll is the pause between two requests to leave.
const leavePoll = 500 * time.Millisecond

const nodeHelp = `

A node is named as roost cluster status lists it: by name, by address, or, when an old
and a new process share these, by host:port#uid.`

func (a *group) membershipClient() (*adminclient.Membership, error) {
	urls, err := a.URLs(a.Admin, "admin", (*cluster.State).Admin)
	if err != nil {
		return nil, err
	}
	options, err := a.AdminOptions()
	if err != nil {
		return nil, err
	}
	return adminclient.NewMembershipWith(options, urls...), nil
}

func (a *group) leaveCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "leave NODE", Short: "Stop a node gracefully", Args: app.OneName,
		Long: "Asks a node to stop gracefully, as SIGTERM does, and waits until it is no longer a\nmember: a region hands its shards off first." + nodeHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.leave(ctx, args[0])
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait until it has left; it continues to leave after that")
	return cmd
}

// leave repeats the request, which may get lost, until the member is gone.
func (a *group) leave(ctx context.Context, node string) error {
	client, err := a.membershipClient()
	if err != nil {
		return err
	}
	begin := time.Now()
	first, err := client.Leave(ctx, node)
	if err != nil {
		return err
	}
	poll := time.NewTicker(leavePoll)
	defer poll.Stop()
	for last := first; ; {
		select {
		case <-poll.C:
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return app.ErrInterrupted
			}
			if !last.GetReachable() {
				return app.TimedOut(fmt.Errorf("%s is unreachable, and it is not known whether it has left; if its process is gone: roost cluster down %s", name(first), name(first)))
			}
			return app.TimedOut(fmt.Errorf("%s is still %s; it continues to leave, see roost cluster status", name(first), last.GetStatus()))
		}
		now, err := client.Leave(ctx, first.GetAddr()+"#"+first.GetUid())
		var remote twirp.Error
		switch {
		case err == nil:
			last = now
		case errors.As(err, &remote) && remote.Code() == twirp.NotFound:
			return a.done(first, "left", fmt.Sprintf("%s has left the cluster (%.1f s)", name(first), time.Since(begin).Seconds()))
		case errors.Is(err, adminclient.ErrUnreachable) && ctx.Err() == nil && len(a.Admin) > 0:
			return fmt.Errorf("%w; whether %s has left is not known", err, name(first))
		}
	}
}

func (a *group) downCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "down NODE", Short: "Declare a node gone permanently", Args: app.OneName,
		Long: `Declares a node gone permanently: its shards move, and its process stops as soon as it
learns of it. A process that is started again is another member. For a node that works,
use roost cluster leave.

--force removes the node at once, without the agreement of the other members: for nodes
that are gone permanently and keep others from coming up. Its incarnation is refused from then
on; if its process lives after all, it stops as soon as it talks to a member.` + nodeHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.membershipClient()
			if err != nil {
				return err
			}
			if force {
				m, err := client.Remove(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.done(m, "removed", name(m)+" is removed, and this incarnation of it is refused from now on")
			}
			m, err := client.Down(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.done(m, "down", name(m)+" is declared down: its shards move, and its process stops as soon as it learns of it")
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "remove the node at once, without the agreement of the other members")
	return cmd
}

func (a *group) joinCommand() *cobra.Command {
	return &cobra.Command{
		Use: "join ADDRESS", Short: "Make a process join a cluster", Args: app.OneName,
		Long: `Makes a process that is in no cluster yet join through the node at ADDRESS, its
host:port as in roost cluster status, whatever its configuration says. The process is the
one whose management URL --admin names. With its own address it forms a cluster.`,
		Example: "  roost cluster join 10.0.0.4:25521 --admin http://localhost:8561",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(a.Admin) != 1 {
				return app.Usage(errors.New("which process should join? give its management URL: --admin http://localhost:8558"))
			}
			client, err := a.membershipClient()
			if err != nil {
				return err
			}
			self, err := client.Join(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(map[string]string{"node": self, "via": args[0]})
			}
			_, err = fmt.Fprintf(a.Out, "%s asks %s to be let in; see roost cluster status, and its log if it does not appear there\n", self, args[0])
			return err
		},
	}
}

type ordered struct {
	Name    string `json:"name"`
	Addr    string `json:"addr"`
	UID     string `json:"uid"`
	Outcome string `json:"outcome"`
}

// done prints the outcome of a request about a member.
func (a *group) done(m *membershipv1.ClusterMember, outcome, text string) error {
	if a.JSON() {
		return a.PrintJSON(ordered{m.GetName(), m.GetAddr(), m.GetUid(), outcome})
	}
	_, err := fmt.Fprintln(a.Out, text)
	return err
}

// name returns the name of a member for people.
func name(m *membershipv1.ClusterMember) string {
	if m.GetName() != "" {
		return m.GetName()
	}
	return m.GetAddr()
}

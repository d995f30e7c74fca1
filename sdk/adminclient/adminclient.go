// Package adminclient asks the admin API of coordinators, and steers a cluster with it. The command
// roost is written with it, and so is a program that says where shards go:
//
//	c := adminclient.New("http://localhost:7200", "http://localhost:7210")
//	done, err := c.Assign(ctx, adminclient.Assignment{
//		Type: "Cart", Regions: map[uint32]string{0: "region-1", 1: "region-2"}, By: "placer",
//	})
//
// The URLs are those of management listeners of coordinators. Whichever coordinator is active
// answers; while there is none, a call waits some seconds for one.
//
// # What this does not do
//
// It calls no entities: see package client for that. It finds no coordinators by itself. A call
// other than [Client.Assign], [Client.Command] and [UntilStored] is made once, and its request
// may get lost with the coordinator that took it.
package adminclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// ErrUnreachable is wrapped when no active coordinator answered.
var ErrUnreachable = errors.New("the cluster is unreachable")

const (
	// askTimeout bounds one attempt at one coordinator.
	askTimeout = 2 * time.Second
	// electionTimeout is how long an active coordinator is looked for when
	// every one that answers is a standby: longer than a lease (2 s) and the
	// head starts take.
	electionTimeout = 6 * time.Second
	// answerGrace is how much longer an answer is waited for than a coordinator may work at it: its
	// own words say more than that the time is over.
	answerGrace = askTimeout / 4
	// askPause is the pause between two rounds.
	askPause = 100 * time.Millisecond
	// storePoll is the pause between two questions whether a request is stored.
	storePoll = 100 * time.Millisecond
)

// Client asks the admin API of the active coordinator, whichever that is.
type Client struct {
	urls    []string
	clients []adminv1.Admin
}

// New makes a client of the coordinators with these management URLs.
func New(addresses ...string) *Client {
	a := &Client{urls: addresses}
	for _, u := range addresses {
		a.clients = append(a.clients, adminv1.NewAdminProtobufClient(u, NewHTTP(askTimeout)))
	}
	return a
}

// NewHTTP makes a client of the services' Twirp APIs that waits for an answer
// for the given time, and reads none of more than 64 MiB: a few times the whole
// route table.
func NewHTTP(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: bounded.Limits{Body: 64 << 20}.Transport(http.DefaultTransport)}
}

// Members lists the members as the active coordinator sees them.
func (a *Client) Members(ctx context.Context) (*adminv1.MembersResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.MembersResponse, error) {
		return c.Members(ctx, &adminv1.MembersRequest{})
	})
}

// Shards lists the route table; an empty type or region means all.
func (a *Client) Shards(ctx context.Context, typ, region string) (*adminv1.ShardsResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.ShardsResponse, error) {
		return c.Shards(ctx, &adminv1.ShardsRequest{Type: typ, Region: region})
	})
}

// Where returns the region that owns an entity.
func (a *Client) Where(ctx context.Context, typ, id string) (*adminv1.WhereResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.WhereResponse, error) {
		return c.Where(ctx, &adminv1.WhereRequest{Type: typ, Id: id})
	})
}

// Drain hands all shards of a region off, or ends that. It returns how many
// remain, and which of them stay.
func (a *Client) Drain(ctx context.Context, region string, resume bool) (*adminv1.DrainResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.DrainResponse, error) {
		return c.Drain(ctx, &adminv1.DrainRequest{Region: region, Resume: resume})
	})
}

// Stays tells which shards of a region no other one can be given now.
func (a *Client) Stays(ctx context.Context, region string) (*adminv1.DrainResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.DrainResponse, error) {
		return c.Drain(ctx, &adminv1.DrainRequest{Region: region, DryRun: true})
	})
}

// Cordon has the regions with a name get no more shards, or ends that. Repeat this, and the
// three after it, until the answer says that it is stored.
func (a *Client) Cordon(ctx context.Context, req *adminv1.CordonRequest) (*adminv1.SteerResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.SteerResponse, error) { return c.Cordon(ctx, req) })
}

// Freeze has nothing move that need not, or ends that.
func (a *Client) Freeze(ctx context.Context, req *adminv1.FreezeRequest) (*adminv1.SteerResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.SteerResponse, error) { return c.Freeze(ctx, req) })
}

// Pin has shards be at regions with certain names, or ends that.
func (a *Client) Pin(ctx context.Context, req *adminv1.PinRequest) (*adminv1.SteerResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.SteerResponse, error) { return c.Pin(ctx, req) })
}

// Move moves a shard to a region once.
func (a *Client) Move(ctx context.Context, req *adminv1.MoveRequest) (*adminv1.SteerResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.SteerResponse, error) { return c.Move(ctx, req) })
}

// UntilStored repeats a request to steer placement (Cordon, Freeze, Pin, Move) until it is stored.
// It returns the first answer: the later ones only say that it is so already. If the
// context ends before, it is not known whether the request is stored. Then, as after any error of
// the context, the same request can be made again.
func UntilStored(ctx context.Context, ask func(context.Context) (*adminv1.SteerResponse, error)) (*adminv1.SteerResponse, error) {
	var first *adminv1.SteerResponse
	poll := time.NewTicker(storePoll)
	defer poll.Stop()
	for {
		res, err := ask(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			return nil, err
		case err == nil && first == nil:
			first = res
		}
		if err == nil && res.Stored {
			first.Stored = true
			return first, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("it is not known whether this is stored: %w", ctx.Err())
		}
	}
}

// Steering lists what operators want of placement; an empty type means pins of all types.
func (a *Client) Steering(ctx context.Context, typ string) (*adminv1.SteeringResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.SteeringResponse, error) {
		return c.Steering(ctx, &adminv1.SteeringRequest{Type: typ})
	})
}

// Rollout tells which versions of the application run, and what is left to move.
func (a *Client) Rollout(ctx context.Context) (*adminv1.RolloutResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.RolloutResponse, error) {
		return c.Rollout(ctx, &adminv1.RolloutRequest{})
	})
}

// Look has the shards that no region reads looked at. Repeat it until those that are left
// are looked at.
func (a *Client) Look(ctx context.Context) (*adminv1.LookResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.LookResponse, error) {
		return c.Look(ctx, &adminv1.LookRequest{})
	})
}

// SetTarget makes a version the target of rollouts; by says who asks. Repeat it until the
// answer says that it is stored.
func (a *Client) SetTarget(ctx context.Context, version, by string) (*adminv1.SetTargetResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.SetTargetResponse, error) {
		return c.SetTarget(ctx, &adminv1.SetTargetRequest{Version: version, By: by})
	})
}

// Command has the region that owns an entity run a built-in command. It has a key, and is
// sent again under that key until the time is over, or until its outcome is known. An error says
// that it was not applied: no coordinator has taken it, or the active one has refused it.
func (a *Client) Command(ctx context.Context, req *adminv1.CommandRequest, timeout time.Duration) (*adminv1.CommandResponse, error) {
	end := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(ctx, end.Add(answerGrace))
	defer cancel()
	doubt := false
	var last *adminv1.CommandResponse
	for {
		res, err := ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.CommandResponse, error) {
			left := min(time.Until(end), askTimeout-answerGrace)
			if err := ctx.Err(); err != nil {
				return nil, err
			} else if left < time.Millisecond {
				return nil, context.DeadlineExceeded
			}
			req.TimeoutMs = left.Milliseconds()
			res, err := c.Command(ctx, req)
			doubt = doubt || err != nil && wayward(err) == isLost && !notDialled(err)
			return res, err
		})
		if err == nil {
			last = res
			doubt = doubt || res.Outcome == sharding.Unknown.String()
		}
		late := err == nil && (res.Outcome == sharding.Unknown.String() && res.Code != string(sharding.KeyExpired) ||
			res.Outcome == sharding.Rejected.String() && (res.Code == string(twirp.DeadlineExceeded) || res.Code == string(twirp.Unavailable)))
		again := late || errors.Is(err, ErrUnreachable)
		if again && time.Until(end) > askPause {
			pause := time.NewTimer(askPause)
			select {
			case <-pause.C:
				continue
			case <-ctx.Done():
				pause.Stop()
			}
		}
		switch {
		case err != nil && doubt:
			return &adminv1.CommandResponse{
				Outcome: sharding.Unknown.String(), Code: string(twirp.DeadlineExceeded),
				Message: "it may have been applied; send it again under the same key: " + err.Error(),
			}, nil
		case err != nil && again && last != nil: // it says more than that the time is over
			return last, nil
		case late && doubt && res.Outcome == sharding.Rejected.String():
			res.Outcome = sharding.Unknown.String()
			res.Message = "an earlier attempt may have been applied; send it again under the same key: " + res.Message
		}
		return res, err
	}
}

// notDialled reports whether a call has failed before anything was sent.
func notDialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// Reminders lists a page of the reminders that stand.
func (a *Client) Reminders(ctx context.Context, req *adminv1.RemindersRequest) (*adminv1.RemindersResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.RemindersResponse, error) {
		return c.Reminders(ctx, req)
	})
}

// Sends lists a page of the sends that have not ended.
func (a *Client) Sends(ctx context.Context, req *adminv1.SendsRequest) (*adminv1.SendsResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.SendsResponse, error) {
		return c.Sends(ctx, req)
	})
}

// Remembered lists a page of the entities that are remembered.
func (a *Client) Remembered(ctx context.Context, req *adminv1.RememberedRequest) (*adminv1.RememberedResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.RememberedResponse, error) {
		return c.Remembered(ctx, req)
	})
}

// ask tries one coordinator after the other until the active one has answered.
// Errors of the active one are twirp.Error; ErrUnreachable is wrapped when there
// is none, ErrStranger when a URL leads to something else.
func ask[T any](ctx context.Context, a *Client, call func(context.Context, adminv1.Admin) (*T, error)) (*T, error) {
	if len(a.clients) == 0 {
		return nil, fmt.Errorf("%w: no coordinator is known", ErrUnreachable)
	}
	ctx, cancel := context.WithTimeout(ctx, electionTimeout)
	defer cancel()
	for {
		standby := false
		var last error
		for i, client := range a.clients {
			answer, err := call(ctx, client)
			if err == nil {
				return answer, nil
			}
			switch wayward(err) {
			case isAnswer:
				return nil, err
			case isStandby:
				standby = true
			case isStranger:
				last = stranger(ctx, a.urls[i], "the management listener of a coordinator")
				continue
			}
			var network *url.Error
			if errors.As(err, &network) {
				err = network.Err // Without the path, which says nothing.
			}
			last = fmt.Errorf("%s: %w", a.urls[i], err)
		}
		// Where nobody listens, waiting for an election is vain.
		if errors.Is(last, ErrStranger) && !standby {
			return nil, last
		}
		if !standby {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, last)
		}
		pause := time.NewTimer(askPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, fmt.Errorf("%w: no coordinator is active: %w", ErrUnreachable, last)
		}
	}
}

// What an error of a call means.
const (
	isAnswer   = iota // the active coordinator's word
	isStandby         // a standby's: ask another
	isLost            // nobody's: broken connection, silence
	isStranger        // no coordinator's
)

func wayward(err error) int {
	var e twirp.Error
	if !errors.As(err, &e) {
		return isLost
	}
	switch {
	case notOurs(err):
		return isStranger
	case e.Code() == twirp.FailedPrecondition, e.Code() == twirp.Unavailable:
		return isStandby // The latter while it starts or loses its lease.
	case e.Code() == twirp.Internal && errors.Unwrap(e) != nil,
		e.Code() == twirp.Canceled, e.Code() == twirp.DeadlineExceeded:
		// The generated client wraps what the HTTP client returned.
		return isLost
	}
	return isAnswer
}

// Plan says what would move, and why, and moves nothing.
func (a *Client) Plan(ctx context.Context, req *adminv1.PlanRequest) (*adminv1.PlanResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.PlanResponse, error) { return c.Plan(ctx, req) })
}

// Why says why a shard is where it is, and what was decided about it.
func (a *Client) Why(ctx context.Context, req *adminv1.WhyRequest) (*adminv1.WhyResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.WhyResponse, error) { return c.Why(ctx, req) })
}

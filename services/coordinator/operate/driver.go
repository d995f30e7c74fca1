package operate

import (
	"context"
	"time"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Driver drives the machine of one command.
type Driver struct {
	// Find looks up where the entity of a command is. The answer is [Found] or [NotFound].
	Find func(context.Context, *sharding.Envelope, Find) Input
	// Allocate asks the coordinator for an owner of a shard.
	Allocate func(context.Context, Allocate)
	// Link is the configuration of the link of one attempt.
	Link link.Config
}

// Run brings a command to the region of its entity. It returns at the deadline of the command at the latest, or when the
// context ends.
func (d Driver) Run(ctx context.Context, c link.Command) End {
	m := New(DefaultConfig(), c.Envelope.Deadline)
	in := Input(Begin{})
	for {
		for _, o := range m.Step(time.Now(), in) {
			switch o := o.(type) {
			case End:
				return o
			case Find:
				in = d.Find(ctx, &c.Envelope, o)
			case Allocate:
				d.Allocate(ctx, o)
			case Send:
				c.Epoch = o.Row.Epoch
				in = d.send(ctx, o.Row, c)
			case Wait:
				in = waitUntil(ctx, o.Until)
			}
		}
	}
}

func waitUntil(ctx context.Context, t time.Time) Input {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return Tick{}
	case <-ctx.Done():
		return CallerGone{}
	}
}

// send sends a command to a region and waits for the answer.
func (d Driver) send(ctx context.Context, row sharding.Row, c link.Command) Input {
	up := make(chan *link.Link, 1)
	lost := make(chan error, 1)
	answers := make(chan link.Answer, 1)
	report := func(err error) {
		select {
		case lost <- err:
		default:
		}
	}
	client, err := link.NewClient(d.Link, row.Owner, link.Events{
		Up: func(l *link.Link) {
			select {
			case up <- l:
			default:
			}
		},
		Down:   func(_ *link.Link, d link.Down) { report(d.Reason) },
		Failed: func(err error, _ bool) { report(err) },
		Answers: func(_ *link.Link, as []link.Answer) {
			for _, a := range as {
				select {
				case answers <- a:
				default:
				}
			}
		},
	})
	if err != nil {
		return Failed{Err: err}
	}
	defer client.Close()
	select {
	case l := <-up:
		if err := l.Send(row.Shard.Index, &c); err != nil {
			return Failed{Err: err}
		}
	case err := <-lost:
		return Failed{Err: err}
	case <-ctx.Done():
		return Failed{Err: ctx.Err()}
	}
	select {
	case answer := <-answers:
		if answer.NotMine != nil {
			return NotMine{}
		}
		return Answered{Reply: answer.Reply}
	case err := <-lost:
		return Failed{Sent: true, Err: err}
	case <-ctx.Done():
		return Failed{Sent: true, Err: ctx.Err()}
	}
}

package adminclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twitchtv/twirp"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
)

// hedgeAfter is the time after which Explain also asks the next process. It is longer than a process takes
// for its answer if some of the processes that it asks do not answer.
const hedgeAfter = 250 * time.Millisecond

// Diagnosis is a client that asks why commands wait or fail. Every coordinator and gateway answers, also a
// standby. It is safe for concurrent use.
type Diagnosis struct {
	urls    []string
	options Options
	clients []diagnosisv1.Diagnosis
}

// NewDiagnosis makes a client of the coordinators and gateways with these management URLs.
func NewDiagnosis(addresses ...string) *Diagnosis { return NewDiagnosisWith(Options{}, addresses...) }

// NewDiagnosisWith is [NewDiagnosis] with options.
func NewDiagnosisWith(o Options, addresses ...string) *Diagnosis {
	d, client := &Diagnosis{urls: addresses, options: o}, NewHTTP(o, askTimeout)
	for _, u := range addresses {
		d.clients = append(d.clients, diagnosisv1.NewDiagnosisProtobufClient(u, client))
	}
	return d
}

// explained is the answer of one process.
type explained struct {
	res *diagnosisv1.ExplainResponse
	err error
	url string
}

// Explain returns why a command for an entity waits or fails now. It asks the processes in the order of their
// URLs. If a process does not answer within 250 ms, Explain also asks the next one, because in a cluster that
// stalls any process may be silent. It returns the first answer. If there is none, the error wraps
// [ErrUnreachable], [ErrWrongAddress] or the error of the context.
func (d *Diagnosis) Explain(ctx context.Context, req *diagnosisv1.ExplainRequest) (*diagnosisv1.ExplainResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan explained, len(d.clients))
	asked, answered := 0, 0
	next := func() {
		if i := asked; i < len(d.clients) {
			asked++
			go func() {
				res, err := d.clients[i].Explain(ctx, req)
				got <- explained{res, err, d.urls[i]}
			}()
		}
	}
	hedge := time.NewTicker(hedgeAfter)
	defer hedge.Stop()
	last := fmt.Errorf("%w: no coordinator or gateway is known", ErrUnreachable)
	for next(); answered < asked; {
		select {
		case a := <-got:
			answered++
			switch {
			case a.err == nil:
				return a.res, nil
			case classify(a.err) == activeAnswered && !full(a.err):
				return nil, a.err
			case classify(a.err) == foreignAnswered:
				last = wrongAddress(ctx, d.options, a.url, "the management listener of a coordinator or gateway")
			default:
				last = unreachable(a.url, a.err)
			}
			next()
		case <-hedge.C:
			next()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, last
}

// full reports whether a process has refused because it already explains as much as it may at a time. Another
// process may answer.
func full(err error) bool {
	var e twirp.Error
	return errors.As(err, &e) && e.Code() == twirp.ResourceExhausted
}

// unreachable returns the error that no process has answered at a URL.
func unreachable(at string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnreachable, at, withoutURL(err))
}

// Examine lists what is unsafe or unwise in how the cluster is set up, as the active coordinator finds it.
func (a *Client) Examine(ctx context.Context) (*adminv1.ExamineResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.ExamineResponse, error) {
		return c.Examine(ctx, &adminv1.ExamineRequest{})
	})
}

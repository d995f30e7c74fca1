package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/e2e/cluster/history"
)

const (
	listCount = 16
	clients   = 8
	// patience is the time that an operation has, all its attempts included.
	patience = 10 * time.Second
	// crowd is the most calls under way. More of them is no load that this
	// machine carries, and the run is void.
	crowd = 4000
)

// load is the clients of a run and what they have seen. It is open: a call
// starts when its time has come, however many others wait for an answer. It
// speaks HTTP by itself, so that nothing of what it tests is on its own side.
type load struct {
	gateways []string
	rate     float64 // calls that start per second
	http     *http.Client
	began    time.Time
	value    atomic.Int64 // the last one added
	batch    atomic.Int64
	acked    atomic.Int64 // operations answered OK
	underway atomic.Int64
	calls    sync.WaitGroup
	end      time.Duration // of the calls' starts
	turned   int           // calls that did not start, because of the crowd

	mu       sync.Mutex
	ops      []history.Op
	reasons  map[string]int // of attempts that were not answered OK
	problems []string       // answers that no fault explains
}

func newLoad(gateways []string, rate float64) *load {
	return &load{
		gateways: gateways, rate: rate, began: time.Now(), reasons: map[string]int{},
		http: &http.Client{Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
			MaxIdleConnsPerHost: 512,
		}},
	}
}

func listName(i int) string { return "list-" + strconv.Itoa(i) }

// run starts calls for a while, and as long as the faults are not over, and
// returns when the last one has ended.
func (l *load) run(ctx context.Context, atLeast time.Duration, over <-chan struct{}, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for started := 0; ; {
		at := time.Since(l.began)
		for ; started < int(at.Seconds()*l.rate); started++ {
			l.start(ctx, started, r)
		}
		if at >= atLeast {
			select {
			case <-over:
				over = nil
			default:
			}
		}
		if l.end = at; over == nil || ctx.Err() != nil {
			break
		}
		<-tick.C
	}
	l.calls.Wait()
	l.http.CloseIdleConnections()
}

// start begins the next call: three in ten read, one in ten has no key, one in
// twenty is a batch, and some are sent twice.
func (l *load) start(ctx context.Context, n int, r *rand.Rand) {
	if l.underway.Add(1) > crowd {
		l.turned++
		l.underway.Add(-1)
		return
	}
	c := call{load: l, client: n % clients, list: listName(r.IntN(listCount)), kind: history.Add, keyed: true}
	dice := r.IntN(20)
	other := listName(r.IntN(listCount))
	l.calls.Go(func() {
		defer l.underway.Add(-1)
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		switch {
		case dice < 6:
			c.kind = history.Get
		case dice < 8:
			c.keyed = false
		case dice == 8:
			c.many(ctx, other)
			return
		case dice == 9:
			c.twins = true
		case dice == 10:
			c.again = true
		}
		l.record(c.one(ctx))
	})
}

func (l *load) record(ops ...history.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, ops...)
	for i := range ops {
		if ops[i].Outcome == history.OK {
			l.acked.Add(1)
		}
	}
}

func (l *load) problem(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := fmt.Sprintf(format, args...); len(l.problems) < 10 && !slices.Contains(l.problems, p) {
		l.problems = append(l.problems, p)
	}
}

func (l *load) count(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reasons[reason]++
}

// answer is the end of one attempt.
type answer struct {
	outcome history.Outcome
	body    []byte
	at      time.Duration
}

// post sends one request to a gateway.
func (l *load) post(ctx context.Context, gateway int, path, key string, body any) answer {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.gateways[gateway%len(l.gateways)]+path, bytes.NewReader(raw))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if deadline, ok := ctx.Deadline(); ok {
		req.Header.Set("Roost-Timeout", strconv.FormatInt(max(1, time.Until(deadline).Milliseconds()), 10)+"ms")
	}
	a := answer{outcome: history.Unknown}
	res, err := l.http.Do(req)
	if err == nil {
		a.body, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
	a.at = time.Since(l.began)
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		a.outcome = history.Rejected
		l.count("no connection")
	case err != nil:
		l.count("connection lost")
	case res.StatusCode == http.StatusOK:
		a.outcome = history.OK
	default:
		a.outcome = l.refusal(a.body)
	}
	return a
}

// refusal reads an error as the gateway documents it.
func (l *load) refusal(body []byte) history.Outcome {
	var e struct {
		Code, Msg string
		Meta      struct{ Executed, Error string }
	}
	if err := json.Unmarshal(body, &e); err != nil {
		l.problem("an error that is no JSON: %.200q", body)
		return history.Unknown
	}
	l.count(e.Meta.Error)
	return l.executed(e.Meta.Executed, e.Code, e.Msg)
}

func (l *load) executed(executed, code, message string) history.Outcome {
	switch {
	case executed == "unknown":
		return history.Unknown
	case executed == "false" && slices.Contains([]string{"unavailable", "resource_exhausted", "deadline_exceeded", "data_loss"}, code):
		return history.Rejected
	case executed == "false":
		l.problem("refused as %s: %s", code, message)
		return history.Rejected
	}
	l.problem("a list never fails by itself: %s: %s", code, message)
	return history.Unknown
}

package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/e2e/cluster/history"
)

const (
	// Lists is the number of lists that the calls go to; see [ListName].
	Lists   = 16
	clients = 8
	// patience is the time that an operation has, with all its attempts.
	patience = 10 * time.Second
	// attempt is the deadline of one attempt of an Append, and rollout the time that it has
	// with all its attempts.
	attempt = 5 * time.Second
	rollout = 2 * time.Minute
	// Crowd is the most calls in progress. If there are more, the machine is too slow for
	// the load, and the run is void.
	Crowd = 4000
)

// Load has the clients of a run and their observations. Its methods may be called from any
// goroutine. Its fields may be read after Run.
type Load struct {
	// End is the time during which calls started.
	End time.Duration
	// Turned is the number of calls that did not start, because [Crowd] were in progress.
	Turned int
	// Reasons counts attempts that were not executed, by reason.
	Reasons map[string]int
	// Problems are answers that no fault explains.
	Problems []string
	// Appended holds the duration of each addition by Append, with all its attempts.
	Appended []time.Duration

	// Skewed has the calls go to the lists by Zipf's law: about a third to the first one. It is
	// set before Run.
	Skewed bool

	gateways []string
	rate     float64 // calls that start per second
	http     *http.Client
	began    time.Time
	value    atomic.Int64 // the last one added
	batch    atomic.Int64
	acked    atomic.Int64 // operations executed
	underway atomic.Int64
	appends  atomic.Bool // see [Load.UseAppend]
	calls    sync.WaitGroup

	mu  sync.Mutex // of ops, Reasons and Problems
	ops []history.Op
}

// New returns a load for gateways, given as URLs, that starts rate calls per second. The
// history begins now.
func New(gateways []string, rate float64) *Load {
	return &Load{
		gateways: gateways, rate: rate, began: time.Now(), Reasons: map[string]int{},
		http: &http.Client{Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
			MaxIdleConnsPerHost: 512,
			// Below the shutdown.delay of gateways (500 ms). One that stops closes each
			// connection with its next answer during that time, and idle ones afterwards. A
			// connection that has been idle for longer could be closed at the moment of the next
			// request, which would be in doubt.
			IdleConnTimeout: 300 * time.Millisecond,
		}},
	}
}

// ListName returns the name of list i, from 0.
func ListName(i int) string { return "list-" + strconv.Itoa(i) }

// Run starts calls for atLeast, and until over is closed. It returns when the last call has
// ended.
func (l *Load) Run(ctx context.Context, atLeast time.Duration, over <-chan struct{}, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	list := func() string { return ListName(r.IntN(Lists)) }
	if l.Skewed {
		zipf := rand.NewZipf(r, 1.1, 1, Lists-1)
		list = func() string { return ListName(int(zipf.Uint64())) }
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for started := 0; ; {
		at := time.Since(l.began)
		for ; started < int(at.Seconds()*l.rate); started++ {
			l.start(ctx, started, r, list)
		}
		if at >= atLeast {
			select {
			case <-over:
				over = nil
			default:
			}
		}
		if l.End = at; over == nil || ctx.Err() != nil {
			break
		}
		<-tick.C
	}
	l.calls.Wait()
	l.http.CloseIdleConnections()
}

// start begins the next call, to a list that list chooses. Of 40, ten are reads, one of them large; two are stale reads,
// two are refused by the list, four have no key, two are batches, one goes to a volatile
// entity, and four are sent twice.
func (l *Load) start(ctx context.Context, n int, r *rand.Rand, list func() string) {
	if l.underway.Add(1) > Crowd {
		l.Turned++
		l.underway.Add(-1)
		return
	}
	c := call{Load: l, client: n % clients, list: list(), kind: history.Add, keyed: true}
	dice := r.IntN(40)
	other := list()
	l.calls.Go(func() {
		defer l.underway.Add(-1)
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		switch {
		case dice < 9:
			c.kind = history.Get
		case dice < 10:
			c.kind, c.big = history.Get, true
		case dice < 12:
			c.kind = history.Peek
		case dice < 14:
			c.kind, c.again = history.Refuse, dice == 12
		case dice < 15:
			c.tally(ctx)
			return
		case dice < 19:
			c.keyed = false
		case dice < 21:
			c.sendBatch(ctx, other)
			return
		case dice < 23:
			c.twice = true
		case dice < 25:
			c.again = true
		}
		l.record(c.operation(ctx))
	})
}

// UseAppend makes half of the additions with a key use the command Append from now on,
// which only version 2 of the lists knows. They are repeated for longer than others: until
// a region of that version has the list.
func (l *Load) UseAppend() { l.appends.Store(true) }

// Now returns the time in the history.
func (l *Load) Now() time.Duration { return time.Since(l.began) }

// Acked counts the operations executed so far.
func (l *Load) Acked() int64 { return l.acked.Load() }

// Ops returns the operations that have ended so far.
func (l *Load) Ops() []history.Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ops)
}

func (l *Load) record(ops ...history.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, ops...)
	for i := range ops {
		if ops[i].Outcome == history.Executed {
			l.acked.Add(1)
		}
	}
}

func (l *Load) problem(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := fmt.Sprintf(format, args...); len(l.Problems) < 10 && !slices.Contains(l.Problems, p) {
		l.Problems = append(l.Problems, p)
	}
}

func (l *Load) appended(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Appended = append(l.Appended, took)
}

func (l *Load) count(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Reasons[reason]++
}

// Answer is the outcome of one attempt.
type Answer struct {
	Outcome history.Outcome
	Body    []byte
	At      time.Duration // since the history began
}

// Post sends one request to a gateway.
func (l *Load) Post(ctx context.Context, gateway int, path, key string, body any) Answer {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	var connections atomic.Int32
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connections.Add(1) },
	})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, l.gateways[gateway%len(l.gateways)]+path, bytes.NewReader(raw))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if deadline, ok := ctx.Deadline(); ok && strings.HasPrefix(path, "/v1/") { // messages have a field for it
		req.Header.Set("Roost-Timeout", strconv.FormatInt(max(1, time.Until(deadline).Milliseconds()), 10)+"ms")
	}
	a := Answer{Outcome: history.Unknown}
	res, err := l.http.Do(req)
	if err == nil {
		a.Body, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
	a.At = time.Since(l.began)
	switch {
	case err != nil && connections.Load() == 0:
		a.Outcome = history.NotApplied
		l.count("no connection")
	case err != nil:
		l.count("connection lost")
	case res.StatusCode == http.StatusOK:
		a.Outcome = history.Executed
	default:
		a.Outcome = l.refusal(a.Body)
	}
	// net/http repeats a request with a key automatically. The answer is that to the last one.
	if a.Outcome == history.NotApplied && connections.Load() > 1 {
		a.Outcome = history.Unknown
		l.count("refused, but repeated by the transport")
	}
	return a
}

// refusal decodes an error as the gateway documents it.
func (l *Load) refusal(body []byte) history.Outcome {
	var e struct {
		Code, Msg string
		Meta      struct{ Outcome, Error string }
	}
	if err := json.Unmarshal(body, &e); err != nil {
		l.problem("an error that is not JSON: %.200q", body)
		return history.Unknown
	}
	l.count(e.Meta.Error)
	return l.refused(e.Meta.Outcome, e.Code, e.Msg)
}

// refused returns the outcome that an error of a gateway names.
func (l *Load) refused(outcome, code, message string) history.Outcome {
	switch {
	case outcome == "executed" && code == "failed_precondition":
		return history.Executed // the list's own answer
	case outcome == "unknown":
		return history.Unknown
	case outcome == "not_applied" && slices.Contains([]string{"unavailable", "resource_exhausted", "deadline_exceeded", "data_loss"}, code):
		return history.NotApplied
	case outcome == "not_applied":
		l.problem("refused as %s: %s", code, message)
		return history.NotApplied
	}
	l.problem("a list never fails on its own: %s: %s", code, message)
	return history.Unknown
}

//go:build linux

package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// silent is a journal whose connections lead through a proxy.
type silent struct {
	*testing.T
	j      *commit.Journal
	proxy  *postgrestest.Proxy
	cfg    journal.Config
	direct string // URL past the proxy
}

func newSilent(t *testing.T) *silent {
	t.Parallel()
	server := postgrestest.Start(t)
	name, direct := newDatabase(t, server)
	s := &silent{T: t, proxy: server.NewProxy(t), cfg: journal.DefaultConfig(), direct: direct}
	openAt(t, direct, s.cfg) // makes the schema
	s.cfg.LoadTimeout, s.cfg.CommitTimeout, s.cfg.RetryFor = 3*time.Second, 3*time.Second, time.Second
	b, err := Open(context.Background(), s.proxy.URL(postgrestest.Superuser, name), s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine the first connections may take longer than the times above.
	for deadline := time.Now().Add(time.Minute); ; {
		if s.j, err = commit.Open(t.Context(), b, journal.Declaration{Cluster: "blue"}, s.cfg, commit.Observer{}); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = s.j.Close() })
	return s
}

// submit wants an answer: no operation hangs forever.
func (s *silent) submit(op journal.Op) journal.Result {
	s.Helper()
	got := make(chan journal.Result, 1)
	s.j.Submit(op, func(r journal.Result) { got <- r })
	select {
	case r := <-got:
		return r
	case <-time.After(time.Minute):
		s.Fatalf("the %s has no result", op.Kind())
		panic("unreachable")
	}
}

// durable submits until an operation is durable, at most n times.
func (s *silent) durable(op journal.Op, n int) {
	s.Helper()
	var r journal.Result
	for range n {
		if r = s.submit(op); r.Verdict == sharding.Durable {
			return
		}
	}
	s.Fatalf("the %s is %v: %v", op.Kind(), r.Verdict, r.Err)
}

// loads loads everybody at once, so that all connections are used, and counts
// those that fail. None takes longer than it may, which is far from a minute.
func (s *silent) loads() (failed int, last error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	errs := make([]error, s.cfg.Loads)
	for i := range errs {
		all.Go(func() { _, errs[i] = s.j.Load(ctx, journal.LoadRequest{Entity: alice}) })
	}
	all.Wait()
	if ctx.Err() != nil {
		s.Fatal("loads hang")
	}
	for _, err := range errs {
		if err != nil {
			failed, last = failed+1, err
		}
		if errors.Is(err, journal.ErrCorrupt) {
			s.Errorf("a load without an answer: %v", err)
		}
	}
	return failed, last
}

// TestSilentConnections lets all connections that there are fall silent: they
// stay open, and nothing comes through. Loads and commits go on with new ones,
// and what was in progress is settled by a write.
func TestSilentConnections(t *testing.T) {
	s := newSilent(t)
	s.durable(claim(1), 1)
	s.durable(add(1, alice, 1), 1)
	if n, err := s.loads(); n > 0 {
		t.Fatal(err)
	}
	s.proxy.Silence(false)
	n, err := s.loads()
	t.Logf("%d of %d loads failed: %v", n, s.cfg.Loads, err)
	if n, err := s.loads(); n > 0 {
		t.Errorf("%d loads fail although their connections were given up: %v", n, err)
	}
	// A batch that is lost on its way never arrives.
	s.durable(add(1, alice, 2), 4)
}

// TestSilenceAfterCommit lets the server commit a batch and its answer be lost in
// silence.
func TestSilenceAfterCommit(t *testing.T) {
	s := newSilent(t)
	s.durable(claim(1), 1)
	other := connect(t, s.direct)
	mustExec(t, other, "BEGIN")
	mustExec(t, other, "SELECT 1 FROM roost.fence FOR UPDATE")
	got := make(chan journal.Result, 1)
	s.j.Submit(add(1, alice, 1), func(r journal.Result) { got <- r })
	for waiting := 0; waiting == 0; {
		if len(got) > 0 {
			t.Fatalf("the append did not wait: %+v", <-got)
		}
		if err := other.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	s.proxy.Silence(false)
	mustExec(t, other, "ROLLBACK")
	if r := <-got; r.Verdict != sharding.UnknownOutcome {
		t.Fatalf("an append whose answer is lost is %v: %v", r.Verdict, r.Err)
	}
	settle := add(1, alice, 1)
	settle.Append.Records = []sharding.Record{{Seq: 1}}
	r := s.submit(settle)
	for range 3 {
		if r.Verdict == sharding.UnknownOutcome {
			r = s.submit(settle)
		}
	}
	if r.Verdict != sharding.RefusedSeq {
		t.Fatalf("the write that settles it is %v: %v", r.Verdict, r.Err)
	}
	if n, err := s.loads(); n > 0 {
		t.Error(err)
	}
	l, err := s.j.Load(t.Context(), journal.LoadRequest{Entity: alice, Lookup: []sharding.CommandID{"c1"}})
	if err != nil || l.LastSeq != 1 || len(l.Stored) != 1 {
		t.Errorf("afterwards: %+v, %v", l, err)
	}
}

// TestSilentNetwork lets nothing through for a while, new connections included:
// everything fails in time, and continues when the network does.
func TestSilentNetwork(t *testing.T) {
	s := newSilent(t)
	s.durable(claim(1), 1)
	s.durable(add(1, alice, 1), 1)
	if n, err := s.loads(); n > 0 {
		t.Fatal(err)
	}
	s.proxy.Silence(true)
	n, err := s.loads()
	if n != s.cfg.Loads {
		t.Errorf("%d loads of %d fail without a network", n, s.cfg.Loads)
	}
	if !errors.Is(err, journal.ErrUnreachable) {
		t.Errorf("the error does not say that the store does not answer: %v", err)
	}
	if r := s.submit(fence(1)); r.Verdict == sharding.Durable {
		t.Error("a fence is read without a network")
	}
	if _, err := s.j.MaxEpoch(t.Context()); err == nil {
		t.Error("the journal declares without a network")
	}
	s.proxy.Heal()
	s.proxy.Silence(false) // what was dialled meanwhile stays silent
	for attempt := 0; ; attempt++ {
		n, err := s.loads()
		if n == 0 {
			break
		}
		if attempt == 10 {
			t.Fatalf("%d loads fail after the network has come back: %v", n, err)
		}
	}
	s.durable(add(1, alice, 2), 4)
	if fmt.Sprint(s.j.Err()) != "<nil>" {
		t.Error(s.j.Err())
	}
}

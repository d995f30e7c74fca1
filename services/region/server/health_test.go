package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// hanging is a journal that does not answer on one of its ways, or has no room.
type hanging struct {
	journal.Backend
	commits, loads, full atomic.Bool
}

func (h *hanging) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	if h.commits.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if h.full.Load() && ops[0].Fence == nil {
		return nil, fmt.Errorf("%w: no space left", journal.ErrFull)
	}
	return h.Backend.Commit(ctx, ops)
}

func (h *hanging) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	if h.loads.Load() {
		<-ctx.Done()
		return journal.Loaded{}, ctx.Err()
	}
	return h.Backend.Load(ctx, req)
}

// TestSilentJournal: a region without callers notices that its journal does not
// answer, on either way, says so in its readiness, and notices the end of it.
func TestSilentJournal(t *testing.T) {
	for path, hang := range map[region.JournalPath]func(*hanging) *atomic.Bool{
		region.Commits: func(h *hanging) *atomic.Bool { return &h.commits },
		region.Loads:   func(h *hanging) *atomic.Bool { return &h.loads },
	} {
		t.Run(path.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, h := runHanging(t)
				s := &Server{runner: r}
				is := func(want sharding.JournalState, ready bool) {
					t.Helper()
					synctest.Wait()
					err := s.inspect(t.Context(), func() error {
						if state, _, _ := s.runner.control.core.Journal(); state != want {
							t.Errorf("the journal is taken for %v, want %v", state, want)
						}
						return s.journalReadiness()
					})
					if (err == nil) != ready {
						t.Errorf("ready: %v, want %t", err, ready)
					}
				}
				time.Sleep(time.Minute)
				is(sharding.JournalAnswers, true)
				hang(h).Store(true)
				time.Sleep(5 * time.Second)
				is(sharding.JournalAnswers, true) // that is not long
				time.Sleep(3 * time.Second)
				is(sharding.JournalSilent, false)
				time.Sleep(10 * time.Minute)
				is(sharding.JournalSilent, false)
				hang(h).Store(false)
				time.Sleep(45 * time.Second) // until what hangs is given up, and some seconds
				is(sharding.JournalAnswers, true)
			})
		})
	}
}

// TestFullJournal: a region whose journal has no room stays ready, and its readiness says
// so, until a write has found room again.
func TestFullJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := runHanging(t)
		s := &Server{runner: r}
		write := func(epoch sharding.Epoch) {
			claim := &sharding.Claim{Shard: sharding.ShardID{Type: "T"}, Epoch: epoch, Owner: 1}
			r.journal.Submit(journal.Op{Claim: claim}, func(journal.Result) {})
			synctest.Wait()
		}
		for i, full := range []bool{false, true, true, false} {
			h.full.Store(full)
			write(sharding.Epoch(i + 1))
			time.Sleep(time.Minute) // tests succeed meanwhile
			err := s.inspect(t.Context(), s.journalReadiness)
			if full != (err != nil) || full && (!strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), "add space")) {
				t.Errorf("full: %t, the readiness says %v", full, err)
			}
			if err := s.inspect(t.Context(), func() error {
				if state, _, _ := r.control.core.Journal(); state != sharding.JournalAnswers {
					t.Errorf("the journal is taken for %v", state)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	})
}

func runHanging(t *testing.T) (*Runner, *hanging) {
	t.Helper()
	g := &gate{open: make(chan struct{}), waiting: make(chan struct{}, 100)}
	s, err := NewRunner(RunnerConfig{
		Self: sharding.NodeID{Addr: "127.0.0.1:1", UID: 1}, Name: "hanging", Types: []entity.Definition{g.typ()},
		Inbox: 1000, StopTimeout: time.Second, Log: slog.New(slog.DiscardHandler), Outside: func(region.ControlOutput) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := open.Open(t.Context(), "memory:", journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	h := &hanging{Backend: b}
	j, err := commit.Open(t.Context(), h, journal.Declaration{Cluster: "test"}, journal.DefaultConfig(), s.Observer())
	if err != nil {
		t.Fatal(err)
	}
	s.Use(j)
	var run sync.WaitGroup
	run.Go(s.Run)
	t.Cleanup(func() {
		s.End()
		run.Wait()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, h
}

package commit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestFailures: why commits fail is reported at once and periodically until they succeed. A concurrent transaction is a failure only if it is in the
// way for as long as commits are repeated.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := fmt.Errorf("%w: password authentication failed", journal.ErrNotCommitted)
		contended := fmt.Errorf("%w: %w", journal.ErrNotCommitted, journal.ErrContended)
		var mu sync.Mutex
		var told []string
		backend := &scripted{Backend: memory.New(journal.DefaultConfig())}
		j, err := commit.Open(t.Context(), backend, journal.Declaration{Cluster: "blue"}, journal.DefaultConfig(), commit.Observer{
			Failing: func(_ int, p commit.Path, err error) {
				reason := "none"
				if err != nil {
					reason = commit.Reason(err)
				}
				mu.Lock()
				defer mu.Unlock()
				told = append(told, fmt.Sprint(p, " ", reason))
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = j.Close() }()
		epoch := sharding.Epoch(0)
		claim := func(script ...error) {
			backend.say(script...) // an attempt takes a second
			epoch++
			j.Submit(journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: epoch, Owner: 1}}, func(journal.Result) {})
		}
		wantTold := func(want ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(told, want) {
				t.Errorf("notified of %q, want %q", told, want)
			}
			told = nil
		}
		settled := func() {
			time.Sleep(30 * time.Second)
			synctest.Wait()
		}

		claim(contended, refused, refused)
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if err := j.Failure(); !errors.Is(err, refused) || !strings.Contains(err.Error(), "commits fail since ") {
			t.Errorf("while commits fail: %v", err)
		}
		wantTold("commits refused")
		settled()
		if err := j.Failure(); err != nil || j.Report(t.Context(), shard).Failure != nil {
			t.Errorf("afterwards: %v", err)
		}
		wantTold("commits none")

		claim(slices.Repeat([]error{contended}, 9)...)
		settled()
		if err := j.Failure(); err == nil || commit.Reason(err) != commit.ReasonRefused {
			t.Errorf("transactions in the way for long: %v", err)
		}
		wantTold("commits refused")
		for range 2 { // 30 s each, and attempts for 5 s
			claim(slices.Repeat([]error{refused}, 9)...)
			settled()
		}
		wantTold("commits refused", "commits refused")
		// Silence neither replaces the reason nor adds one.
		silent := fmt.Errorf("%w: %w", journal.ErrNotCommitted, context.DeadlineExceeded)
		claim(refused, silent, silent, silent, silent, silent, silent)
		settled()
		if err := j.Failure(); !errors.Is(err, refused) {
			t.Errorf("after a reason and silence: %v", err)
		}
		wantTold("commits refused")
		// The journal is not used any more, as in a coordinator that stands by. What comes later began later.
		time.Sleep(2 * time.Minute)
		if err := j.Failure(); err != nil {
			t.Errorf("two minutes later: %v", err)
		}
		began := time.Now().UTC().Truncate(time.Second).Format(time.RFC3339)
		claim(slices.Repeat([]error{refused}, 9)...)
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if err := j.Failure(); err == nil || !strings.Contains(err.Error(), began[:len(began)-4]) {
			t.Errorf("it fails again since %s: %v", began, err)
		}
		settled()
		wantTold("commits refused")
		claim()
		settled()
		wantTold("commits none")
	})
}

// TestSilenceHasAReason: the error of a read that gets no answer names the last failure.
func TestSilenceHasAReason(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.b.say(errors.New("connection reset"))
		b.add("a", 1, 0)
		b.want("a unknown")
		hang := make(chan struct{})
		b.b.hangOn(hang)
		_, err := b.j.Load(b.Context(), journal.LoadRequest{Entity: alice})
		if !errors.Is(err, journal.ErrUnreachable) || !strings.Contains(err.Error(), "connection reset") {
			b.Errorf("a load that hangs: %v", err)
		}
		if err := b.j.Failure(); err == nil || !strings.Contains(err.Error(), "reads fail since ") {
			b.Errorf("while a load hangs: %v", err)
		}
		close(hang)
		b.b.hangOn(nil)
		b.add("a", 1, 0)
		b.want("a durable")
		if _, err := b.j.Load(b.Context(), journal.LoadRequest{Entity: alice}); err != nil || b.j.Failure() != nil {
			b.Errorf("afterwards: %v, %v", err, b.j.Failure())
		}
	})
}

// TestCallersThatGiveUp: a read that its caller has given up is not a failure of the store, even if the store does not
// answer it.
func TestCallersThatGiveUp(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		hang := make(chan struct{})
		b.b.hangOn(hang)
		ctx, stop := context.WithTimeout(b.Context(), time.Millisecond)
		defer stop()
		if _, err := b.j.Load(ctx, journal.LoadRequest{Entity: alice}); !errors.Is(err, journal.ErrUnreachable) {
			b.Errorf("a load that hangs: %v", err)
		}
		if err := b.j.Failure(); err != nil {
			b.Errorf("the store fails: %v", err)
		}
		close(hang)
	})
}

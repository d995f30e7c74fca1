package sim

import (
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestCheckers falsifies the history of a good run in one place after the
// other: a checker that sees nothing is worse than none.
func TestCheckers(t *testing.T) {
	for _, c := range []struct {
		property string
		falsify  func(w *World, log []commit) []commit
	}{
		{"epochs grow", oldEpoch},
		{"sequence without gaps", lostCommit},
		{"one effect", repeatedCommit},
		{"acknowledged is durable", lostLastCommit},
		{"acknowledged is durable", lateCommit},
		{"linearizable", otherAnswer},
		{"linearizable", lateRead},
		{"linearizable", lateWrite},
		{"not applied has no effect", notAppliedEffect},
		{"no effect of a failed turn", failedEffect},
		{"one reply", otherReply},
		{"order", swappedBatch},
	} {
		t.Run(c.property, func(t *testing.T) { findsFalsified(t, c.property, c.falsify) })
	}
}

// findsFalsified falsifies histories that have a place for it, and has them checked: each is found broken, and one of
// them by the check of the property. Which check finds a history first depends on what else happened: a commit that is
// missing may have been read.
func findsFalsified(t *testing.T, property string, falsify func(*World, []commit) []commit) {
	tried := 0
	for seed := uint64(1); seed <= 20; seed++ {
		w := newWorld(classic, seed, nil)
		w.Run()
		if w.broken != nil {
			t.Fatal(w.failure())
		}
		log, ok := falsified(w, falsify)
		if !ok {
			continue
		}
		tried++
		w.checkHistory(log)
		switch {
		case w.broken == nil:
			t.Fatalf("seed %d: nothing was found, want %q", seed, property)
		case w.broken.property == property:
			return
		}
	}
	t.Errorf("%d seeds have a history that can be falsified so, and %q was found in none", tried, property)
}

// oldEpoch: the last commit has the epoch of the beginning.
func oldEpoch(w *World, log []commit) []commit {
	i := lastCommit(w, log)
	log[i].Epoch = 1
	return log
}

// lostCommit: the first commit of an entity is missing.
func lostCommit(w *World, log []commit) []commit {
	i := slices.IndexFunc(log, func(c commit) bool { return c.Append.Entity == w.entities[0] })
	return slices.Delete(log, i, i+1)
}

// repeatedCommit: the last commit is there twice.
func repeatedCommit(w *World, log []commit) []commit {
	i := lastCommit(w, log)
	again := log[i]
	again.Append.Records = slices.Clone(again.Append.Records)
	for k := range again.Append.Records {
		again.Append.Records[k].Seq += uint64(len(again.Append.Records))
		again.Append.Records[k].Wakes = nil // known to another checker
	}
	return slices.Insert(log, i+1, again)
}

// lostLastCommit: the last commit is missing.
func lostLastCommit(w *World, log []commit) []commit {
	i := lastCommit(w, log)
	return slices.Delete(log, i, i+1)
}

// lateCommit: the last commit is later than its answer.
func lateCommit(w *World, log []commit) []commit {
	log[lastCommit(w, log)].at += 3600 * sec
	return log
}

// otherAnswer: a read returns something else.
func otherAnswer(w *World, log []commit) []commit {
	_, try := answered(w, cmdGet)
	try.list.hash++
	return log
}

// lateRead: a read returns what was there before it was called.
func lateRead(w *World, log []commit) []commit {
	o, _ := answered(w, cmdGet)
	o.called = 3600 * sec
	return log
}

// lateWrite: a write has its effect before it was called.
func lateWrite(w *World, log []commit) []commit {
	o, _ := answered(w, cmdAdd)
	o.called = 3600 * sec
	return log
}

// notAppliedEffect: a write that has taken effect is answered as not applied.
func notAppliedEffect(w *World, log []commit) []commit {
	o, _ := answered(w, cmdAdd)
	for _, t := range o.tries {
		t.reply = sharding.Reject(sharding.Unavailable, "")
	}
	return log
}

// failedEffect: a write that has taken effect was to fail.
func failedEffect(w *World, log []commit) []commit {
	o, _ := answered(w, cmdAdd)
	o.cmd = cmdFail
	return log
}

// otherReply: one command has two different answers.
func otherReply(w *World, log []commit) []commit {
	o, try := answered(w, cmdFail)
	other := *try
	other.reply.Code = ""
	o.keyed, o.tries = true, append(o.tries, &other)
	return log
}

// swappedBatch: two commands of one batch take effect in the other order.
func swappedBatch(w *World, log []commit) []commit {
	a, _ := answered(w, cmdAdd)
	i := slices.Index(w.ops, a)
	k := slices.IndexFunc(w.ops[i+1:], func(o *op) bool {
		return o.cmd == cmdAdd && o.entity == a.entity && len(o.tries) == 1 && o.tries[0].reply.Outcome == sharding.Executed && o.called > a.tries[0].returned
	})
	if k < 0 {
		panic(unsuited{})
	}
	k += i + 1
	for _, o := range w.ops {
		o.batch = 0
	}
	a.batch, w.ops[k].batch = 1, 1
	w.ops[i], w.ops[k] = w.ops[k], w.ops[i]
	return log
}

// unsuited is the panic of falsify when a history has no fitting place.
type unsuited struct{}

func falsified(w *World, falsify func(*World, []commit) []commit) (log []commit, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			_ = r.(unsuited)
		}
	}()
	return falsify(w, w.journal.commits()), true
}

// lastCommit is the index of the last commit to an entity that a client was
// told about, with events.
func lastCommit(w *World, log []commit) int {
	for i := len(log) - 1; i >= 0; i-- {
		r := log[i].Append.Records
		if ofCoordinators(log[i].Append.Entity) || len(r) != 1 || len(r[0].Events) != 1 {
			continue
		}
		later := slices.ContainsFunc(log[i+1:], func(c commit) bool { return c.Append.Entity == log[i].Append.Entity })
		o := w.byID[decodeNumber(r[0].Events[0].Payload)]
		if !later && o != nil && o.tries[0].reply.Outcome == sharding.Executed {
			return i
		}
	}
	panic(unsuited{})
}

// answered finds a command with one attempt that was answered after others had
// taken effect.
func answered(w *World, cmd string) (*op, *try) {
	for _, o := range w.ops[len(w.ops)/3:] {
		if o.cmd == cmd && !o.tell && !w.volatile(o.entity) && len(o.tries) == 1 && o.tries[0].reply.Outcome == sharding.Executed && o.tries[0].list.n > 3 {
			return o, o.tries[0]
		}
	}
	panic(unsuited{})
}

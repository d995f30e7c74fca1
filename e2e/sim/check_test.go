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
		{"epochs grow", func(w *World, log []commit) []commit {
			i := lastCommit(w, log)
			log[i].Epoch = 1
			return log
		}},
		{"sequence without gaps", func(w *World, log []commit) []commit {
			i := slices.IndexFunc(log, func(c commit) bool { return c.Append.Entity == w.entities[0] })
			return slices.Delete(log, i, i+1)
		}},
		{"one effect", func(w *World, log []commit) []commit {
			i := lastCommit(w, log)
			again := log[i]
			again.Append.Records = slices.Clone(again.Append.Records)
			for k := range again.Append.Records {
				again.Append.Records[k].Seq += uint64(len(again.Append.Records))
				again.Append.Records[k].Wakes = nil // of which another checker knows
			}
			return slices.Insert(log, i+1, again)
		}},
		{"acknowledged is durable", func(w *World, log []commit) []commit {
			i := lastCommit(w, log)
			return slices.Delete(log, i, i+1)
		}},
		{"acknowledged is durable", func(w *World, log []commit) []commit {
			log[lastCommit(w, log)].at += 3600 * sec
			return log
		}},
		{"linearizable", func(w *World, log []commit) []commit {
			_, try := answered(w, cmdGet)
			try.list.hash++
			return log
		}},
		{"linearizable", func(w *World, log []commit) []commit {
			o, _ := answered(w, cmdGet)
			o.called = 3600 * sec
			return log
		}},
		{"linearizable", func(w *World, log []commit) []commit {
			o, _ := answered(w, cmdAdd)
			o.called = 3600 * sec
			return log
		}},
		{"rejected is not applied", func(w *World, log []commit) []commit {
			o, _ := answered(w, cmdAdd)
			for _, t := range o.tries {
				t.reply = sharding.Reject(sharding.Unavailable, "")
			}
			return log
		}},
		{"no effect of a failed turn", func(w *World, log []commit) []commit {
			o, _ := answered(w, cmdAdd)
			o.cmd = cmdFail
			return log
		}},
		{"one reply", func(w *World, log []commit) []commit {
			o, try := answered(w, cmdFail)
			other := *try
			other.reply.Code = ""
			o.keyed, o.tries = true, append(o.tries, &other)
			return log
		}},
		{"order", func(w *World, log []commit) []commit {
			a, _ := answered(w, cmdAdd)
			i := slices.Index(w.ops, a)
			k := slices.IndexFunc(w.ops[i+1:], func(o *op) bool {
				return o.cmd == cmdAdd && o.entity == a.entity && len(o.tries) == 1 && o.tries[0].reply.Outcome == sharding.OK && o.called > a.tries[0].returned
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
		}},
	} {
		t.Run(c.property, func(t *testing.T) {
			for seed := uint64(1); seed <= 20; seed++ {
				w := newWorld(classic, seed, nil)
				w.Run()
				if w.broken != nil {
					t.Fatal(w.failure())
				}
				log, ok := falsified(w, c.falsify)
				if !ok {
					continue
				}
				w.checkHistory(log)
				if w.broken == nil || w.broken.property != c.property {
					t.Errorf("seed %d: found %+v, want %q", seed, w.broken, c.property)
				}
				return
			}
			t.Error("no seed has a history that can be falsified so")
		})
	}
}

// unsuited is what falsify panics with when a history has no fitting place.
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
		if !later && o != nil && o.tries[0].reply.Outcome == sharding.OK {
			return i
		}
	}
	panic(unsuited{})
}

// answered finds a command with one attempt that was answered after others had
// taken effect.
func answered(w *World, cmd string) (*op, *try) {
	for _, o := range w.ops[len(w.ops)/3:] {
		if o.cmd == cmd && !o.tell && !w.volatile(o.entity) && len(o.tries) == 1 && o.tries[0].reply.Outcome == sharding.OK && o.tries[0].list.n > 3 {
			return o, o.tries[0]
		}
	}
	panic(unsuited{})
}

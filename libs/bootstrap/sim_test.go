package bootstrap_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/bootstrap"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
)

// storm is a network in trouble. No message is later than two seconds: one that
// was not taken by then has failed at its sender.
func storm() gossiptest.Climate {
	w := gossiptest.Storm()
	w.MaxLate = 2 * time.Second
	return w
}

// boot runs one boot of a cluster under faults, then calm, and returns it. Seeds
// are of five kinds. Four require the real number of nodes: two in any weather,
// one where regions outlive the cluster too, one of partitions and restarts
// alone. One requires no number, and discovery is wrong for less than the stable
// margin.
func boot(seed uint64, trace func(string)) *world {
	var w *world
	switch seed % 5 {
	case 3:
		w = bootSkewed(seed, trace)
	case 4:
		w = bootRelay(seed, trace)
	default:
		w = bootStormy(seed, trace)
	}
	w.calm()
	return w
}

// bootStormy lets discovery be as wrong as it likes for as long as the storm
// lasts.
func bootStormy(seed uint64, trace func(string)) *world {
	w := newWorld(seed, 2+int(seed/5%3), 1+int(seed/15%2), nil)
	w.trace, w.orphans = trace, seed%5 == 2
	w.traceAll()
	w.net.Climate = storm()
	w.lookup = w.wrong
	if w.rng.IntN(10) == 0 {
		w.procs[0].cfg.NewCluster = false // mended when it calms down
	}
	for _, p := range w.procs {
		w.at(time.Duration(w.rng.IntN(3000))*time.Millisecond, func() { w.start(p) })
	}
	if w.rng.IntN(2) == 0 { // half of them get as far as a cluster first
		w.lookup = func(*proc) ([]bootstrap.Peer, string) { return w.truth(), "" }
		w.run(9*time.Second, nil)
		w.lookup = w.wrong
	}
	for range 8 + w.rng.IntN(12) {
		w.nuisance()
		w.run(time.Duration(w.rng.IntN(2500))*time.Millisecond, nil)
	}
	return w
}

// nuisance is something that goes wrong.
func (w *world) nuisance() {
	a, b := w.procs[w.rng.IntN(len(w.procs))], w.procs[w.rng.IntN(len(w.procs))]
	switch w.rng.IntN(9) {
	case 0:
		w.crash(a)
	case 1: // and comes back at once
		w.crash(a)
		w.start(a)
	case 2, 3:
		w.start(a)
	case 4:
		w.pause(a)
	case 5:
		w.resume(a)
	case 6:
		w.net.Cut(a.node.Addr, b.node.Addr, true)
	case 7:
		w.tracef("%s and %s are cut off from each other", a.node.Addr, b.node.Addr)
		w.net.Split([]string{a.node.Addr}, []string{b.node.Addr})
	case 8:
		w.net.Heal()
	}
}

// wrong is the answer of a discovery in trouble: parts of the truth, other names
// for the same nodes, strangers, an empty list, only the asker, or nothing.
func (w *world) wrong(p *proc) ([]bootstrap.Peer, string) {
	if p.listed != nil && w.rng.IntN(4) > 0 {
		return p.listed, ""
	}
	var peers []bootstrap.Peer
	for _, t := range w.truth() {
		switch w.rng.IntN(8) {
		case 0:
		case 1:
			peers = append(peers, bootstrap.Peer{Addr: "alias-" + t.Addr})
		default:
			peers = append(peers, t)
		}
	}
	switch w.rng.IntN(16) {
	case 0:
		return nil, "discovery is down"
	case 1:
		return []bootstrap.Peer{}, ""
	case 2:
		return []bootstrap.Peer{{Addr: p.node.Addr}}, ""
	case 3:
		peers = append(peers, bootstrap.Peer{Addr: "nobody:1"})
	case 4:
		peers = append(peers, bootstrap.Peer{Addr: "foreign:1"})
	case 5:
		peers = append(peers, bootstrap.Peer{Addr: "localhost:1"})
	case 6:
		peers = append(peers, bootstrap.Peer{Addr: "no address"})
	case 7:
		peers = append(peers, bootstrap.Peer{Addr: "r1:1", Role: "region"})
	case 8:
		peers = append(peers, bootstrap.Peer{Addr: "r1:1"})
	}
	return peers, ""
}

// bootSkewed requires one contact point only. For less than the stable margin
// discovery shows some of the nodes to each, and for longer some cannot reach
// each other: then the margin, and the rule that all must answer, keep them from
// forming a cluster each.
func bootSkewed(seed uint64, trace func(string)) *world {
	w := newWorld(seed, 2+int(seed/5%4), 1, func(c *bootstrap.Config) { c.Required = 1 })
	w.trace = trace
	seen := map[*proc][]bootstrap.Peer{}
	w.lookup = func(p *proc) ([]bootstrap.Peer, string) {
		if w.net.Now.After(p.skewUntil) {
			return w.truth(), ""
		}
		return seen[p], ""
	}
	for _, p := range w.procs {
		for _, t := range w.truth() {
			if w.rng.IntN(2) == 0 || t.Addr == p.node.Addr {
				seen[p] = append(seen[p], t)
			}
		}
		at := time.Duration(w.rng.IntN(2000)) * time.Millisecond
		p.skewUntil = w.net.Now.Add(at + time.Duration(w.rng.IntN(3500))*time.Millisecond)
		w.at(at, func() { w.start(p) })
	}
	for range w.rng.IntN(3) {
		a, b := w.procs[w.rng.IntN(len(w.procs))], w.procs[w.rng.IntN(len(w.procs))]
		w.net.Split([]string{a.node.Addr}, []string{b.node.Addr})
	}
	w.run(10*time.Second, nil)
	return w
}

// bootRelay hands the cluster on from node to node: at any time some are cut off
// from the others, and some are started again.
func bootRelay(seed uint64, trace func(string)) *world {
	w := newWorld(seed, 3, 0, nil)
	w.trace = trace
	for _, p := range w.procs {
		w.start(p)
	}
	w.run(8*time.Second, nil)
	for range 5 + w.rng.IntN(15) {
		w.net.Heal()
		alone := w.procs[w.rng.IntN(len(w.procs))]
		var others []*proc
		var addrs []string
		for _, p := range w.procs {
			if p != alone {
				others, addrs = append(others, p), append(addrs, p.node.Addr)
			}
		}
		w.tracef("%s is cut off from the others", alone.node.Addr)
		w.net.Split([]string{alone.node.Addr}, addrs)
		switch w.rng.IntN(4) {
		case 0: // both others are started again
		case 1: // one of them is
			i := w.rng.IntN(2)
			others = others[i : i+1]
		default:
			others = nil
		}
		for _, p := range others {
			w.crash(p)
			w.start(p)
		}
		w.run(2*time.Second+time.Duration(w.rng.IntN(3000))*time.Millisecond, nil)
	}
	return w
}

// calm ends all trouble: then every boot must finish.
func (w *world) calm() {
	if w.broken != "" {
		return
	}
	w.tracef("it calms down")
	w.net.Climate = gossiptest.Calm()
	w.net.Heal()
	w.lookup = func(*proc) ([]bootstrap.Peer, string) { return w.truth(), "" }
	for _, p := range w.procs {
		w.resume(p)
		if !p.cfg.NewCluster {
			if p.m != nil && !p.finished {
				w.crash(p)
			}
			p.cfg.NewCluster = true
		}
	}
	finished := w.run(2*time.Minute, func() bool {
		for _, p := range w.procs { // processes that were ended are started again, as by a supervisor
			w.start(p)
		}
		return w.agreed() == nil
	})
	if !finished {
		w.breaks("not finished two minutes after all was well: %v", w.agreed())
	}
}

// traceAll also traces what the memberships say.
func (w *world) traceAll() {
	w.net.Trace = func(format string, args ...any) { w.tracef("  "+format, args...) }
}

// failure describes the fault and how to reproduce it.
func (w *world) failure() string {
	return fmt.Sprintf("seed %d: %s\n\tBOOT_SEED=%d go test -count=1 -run 'TestBoot$' -v ./libs/bootstrap", w.seed, w.broken, w.seed)
}

// TestBoot runs the seed that BOOT_SEED names, and shows what happens.
func TestBoot(t *testing.T) {
	text := os.Getenv("BOOT_SEED")
	if text == "" {
		t.Skip("BOOT_SEED names no seed")
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if w := boot(seed, func(line string) { fmt.Println(line) }); w.broken != "" {
		t.Error(w.failure())
	}
}

// TestSameSeedSameBoot: without it no failure could be repeated.
func TestSameSeedSameBoot(t *testing.T) {
	for seed := range uint64(8) {
		var runs [2]string
		for i := range runs {
			boot(seed, func(line string) { runs[i] += line + "\n" })
		}
		if runs[0] != runs[1] || runs[0] == "" {
			t.Errorf("two runs of seed %d differ", seed)
		}
	}
}

// TestBoots: never two clusters, and every boot finishes.
func TestBoots(t *testing.T) {
	boots := number(t, "BOOT_SEEDS", 200)
	if testing.Short() {
		boots = min(boots, 100)
	}
	began := time.Now()
	var next, failed, forms, virtual atomic.Int64
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for failed.Load() < 5 {
				seed := next.Add(1) - 1
				if seed >= int64(boots) {
					return
				}
				w := boot(uint64(seed), nil)
				forms.Add(int64(w.forms))
				virtual.Add(int64(w.net.Now.Sub(time.Unix(1_000_000, 0))))
				if w.broken != "" {
					failed.Add(1)
					t.Error(w.failure())
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d boots in %v: %.1f hours of virtual time, %d clusters formed", boots, time.Since(began).Round(time.Millisecond),
		time.Duration(virtual.Load()).Hours(), forms.Load())
}

func number(t *testing.T, env string, otherwise int) int {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q: choose a number from 1 on", env, text)
	}
	return n
}

package sim

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// hang is a fault: calls to the journal arrive and are not answered. The
// connection is not reset, so the caller sees only silence.
type hang struct {
	host  int      // whose calls hang; everybody: all hosts
	kinds []string // of operations, see journal.Op.Kind, and kindLoad
}

const (
	everybody = -1
	kindLoad  = "load"
)

var allKinds = []string{"append", "claim", "fence", "snapshot", kindLoad}

// hang keeps a call that arrives now without an answer, if it is one that hangs.
// Such a call may hang until the calm even if the fault is over before.
func (s *store) hang(host int, kinds []string, answer func()) bool {
	if !slices.ContainsFunc(s.hangs, func(h *hang) bool {
		return (h.host == host || h.host == everybody) &&
			slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(h.kinds, k) })
	}) {
		return false
	}
	w := s.w
	w.mark("journal: hangs")
	w.trace(nil, "HANGS", kinds)
	d := w.dice("hang")
	over := false
	end := func() {
		if !over {
			over = true
			answer()
		}
	}
	s.unhang = append(s.unhang, end)
	if d.chance(w.weather.Harsh.HangEnds) {
		w.after(d.between(2*sec, 10*sec), end) // the driver's own deadline
	}
	return true
}

// applyHung decides what becomes of a batch that hangs: it is applied on arrival,
// some time later, or never.
func (s *store) applyHung(sent sending, ops []journal.Op) {
	d := s.w.dice("hang")
	switch d.IntN(3) {
	case 0:
		s.apply(sent, ops)
	case 1:
		s.w.after(d.between(0, 20*sec), func() { s.apply(sent, ops) })
	}
}

func kinds(ops []journal.Op) []string {
	var list []string
	for i := range ops {
		list = append(list, ops[i].Kind())
	}
	return list
}

// hangStore lets calls to the journal hang for a while: for one process or for all,
// of all kinds or of some.
func (w *World) hangStore() {
	d := w.dice("harsh nemesis")
	h := &hang{host: d.IntN(firstGateway), kinds: allKinds}
	if d.chance(0.1) {
		h.host = everybody
	}
	if d.chance(0.6) {
		h.kinds = [][]string{{"append"}, {"claim"}, {"fence"}, {kindLoad}, {"append", "claim", "fence", "snapshot"}}[d.IntN(5)]
	}
	w.startHang(h, d.between(100*ms, w.weather.Harsh.HangFor))
}

func (w *World) startHang(h *hang, length int64) {
	w.trace(nil, "HANG", *h)
	w.journal.hangs = append(w.journal.hangs, h)
	end := func() {
		w.journal.hangs = slices.DeleteFunc(w.journal.hangs, func(o *hang) bool { return o == h })
	}
	w.heals = append(w.heals, end)
	w.after(length, end)
}

// movedBy bounds the time from a region's loss of its journal until all its
// journaled shards are served by others: the timeout of its core, and some round trips.
const movedBy = 4500 * ms

// deprive takes the journal from one region, and only from it: calls fail, or hang.
// If nothing else happens, everything must be served again soon.
func (w *World) deprive() {
	d := w.dice("harsh deprived")
	h, length := firstRegion+d.IntN(regions-1), w.weather.Harsh.Deprived
	switch d.IntN(3) {
	case 0:
		w.startHang(&hang{host: h, kinds: allKinds}, length)
	case 1:
		w.startHang(&hang{host: h, kinds: []string{kindLoad}}, length)
	default:
		heal := w.net.block([][2]int{{h, journalHost}, {journalHost, h}})
		w.after(length, heal)
	}
	w.mark("region without a journal for long")
	w.trace(nil, "DEPRIVED", w.processes[h].name)
	if !w.weather.Harsh.JournalFaultOnly {
		return
	}
	prober := w.idleClient(proberID)
	for after := movedBy; after < length-4*sec; after += length / 3 {
		w.after(after, func() { w.served(prober, nanos(2*sec)) })
	}
}

// proberID is the client that asks whether everything is served; it never goes away
// before it has its answer.
const proberID = -1

// served reads every entity that is stored: all must answer in time.
func (w *World) served(prober *client, patience time.Duration) {
	for i, e := range w.entities {
		if w.volatile(e) {
			continue
		}
		for gw := range gateways {
			o := prober.draw(e, true, 0)
			o.cmd, o.tell, o.pending = cmdGet, false, 1
			w.after(int64(i)*60*ms, func() { // not more than the smallest buffers take
				o.pending, o.called = 0, w.now
				prober.send(o, gw, patience)
				t := o.tries[0]
				w.after(int64(patience)+sec, func() {
					if t.returned == 0 || t.reply.Outcome != sharding.Executed {
						w.violate("served without the region that has no journal", "%v: %v %s", o, t.reply.Outcome, t.reply.Message)
					}
				})
			})
		}
	}
}

// withoutJournal reports whether the node is a region that runs and knows that its
// journal does not answer.
func (w *World) withoutJournal(id sharding.NodeID) bool {
	p := w.process(id.Addr)
	if p == nil || !p.up || p.uid != id.UID {
		return false
	}
	n, ok := p.body.(*regionNode)
	if !ok {
		return false
	}
	state, _, _ := n.control.Journal()
	return state == sharding.JournalSilent
}

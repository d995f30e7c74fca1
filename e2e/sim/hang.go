package sim

import (
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
)

// hang is a fault: calls to the journal arrive, and are not answered. The
// connection is not reset, so that nobody is told.
type hang struct {
	host  int      // whose calls hang; everybody: all hosts
	kinds []string // of operations, see journal.Op.Kind, and kindLoad
}

const (
	everybody = -1
	kindLoad  = "load"
)

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
func (s *store) applyHung(ops []journal.Op) {
	d := s.w.dice("hang")
	switch d.IntN(3) {
	case 0:
		s.apply(ops)
	case 1:
		s.w.after(d.between(0, 20*sec), func() { s.apply(ops) })
	}
}

func kinds(ops []journal.Op) []string {
	var list []string
	for i := range ops {
		list = append(list, ops[i].Kind())
	}
	return list
}

// hangStore lets calls to the journal hang for a while: those of one process or of
// all, of all kinds or of some.
func (w *World) hangStore() {
	d := w.dice("harsh nemesis")
	h := &hang{host: d.IntN(firstGateway), kinds: []string{"append", "claim", "fence", "snapshot", kindLoad}}
	if d.chance(0.1) {
		h.host = everybody
	}
	if d.chance(0.6) {
		h.kinds = [][]string{{"append"}, {"claim"}, {"fence"}, {kindLoad}, {"append", "claim", "fence", "snapshot"}}[d.IntN(5)]
	}
	w.trace(nil, "HANG", *h)
	w.journal.hangs = append(w.journal.hangs, h)
	end := func() {
		w.journal.hangs = slices.DeleteFunc(w.journal.hangs, func(o *hang) bool { return o == h })
	}
	w.heals = append(w.heals, end)
	w.after(d.between(100*ms, w.weather.Harsh.HangFor), end)
}

package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// WatchConfig sets the times of a [Watcher].
type WatchConfig struct {
	// Timeout is how long a poll may stay unanswered before the next candidate
	// is asked, and for how long one that left a poll unanswered is passed over.
	// Default 2 s: twice what a coordinator holds a poll.
	Timeout time.Duration
	// Retry is the pause after a refused connection or a useless answer, so
	// that a dead cluster is not hammered. Default 100 ms.
	Retry time.Duration
}

// DefaultWatchConfig is the configuration for a cluster of any size.
func DefaultWatchConfig() WatchConfig {
	return WatchConfig{Timeout: 2 * time.Second, Retry: 100 * time.Millisecond}
}

// Validate refuses times that cannot work; it names the field and the fix.
func (c WatchConfig) Validate() error {
	var errs []error
	if c.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("watch: Timeout is %v, must be positive (default 2s)", c.Timeout))
	}
	if c.Retry <= 0 || c.Retry > c.Timeout {
		errs = append(errs, fmt.Errorf("watch: Retry is %v, must be positive and at most Timeout %v", c.Retry, c.Timeout))
	}
	return errors.Join(errs...)
}

// Watcher decides who is asked for the table next. At most one poll is
// outstanding; an answer is followed by the next poll at once. The active
// coordinator is found by asking the candidates in turn and by what standbys
// say; what comes from a term below the highest one that a table came from is
// dropped. A term that a standby only names does not count: it may never have been
// claimed in the journal, so that the active one, after a loss of the lease's
// record, can have a lower one. One whose machine is gone costs the whole Timeout,
// so it is passed over for as long again, whatever standbys say that have not
// noticed yet.
//
// After a round of coordinators without an answer one fallback is asked: a
// region that serves its copy read-only. Its rows are as good as any (newer
// ones win), but it is never taken for a coordinator. It may hold the poll as
// long as a coordinator does, so who has a table does without for the time that a
// new coordinator takes to appear, and finds that one at once.
type Watcher struct {
	cfg          WatchConfig
	coordinators []string
	fallbacks    []string

	term    sharding.Term    // highest that a table came from
	named   sharding.Term    // highest named by a standby since a coordinator answered
	version sharding.Version // highest accepted: what the next poll asks from
	active  string           // where messages to the coordinator go, or ""
	hint    string           // who to ask next: the active one, or who a standby named

	asked   poll      // the outstanding poll, if asked.to is not ""
	next    time.Time // no poll before
	at      int       // next coordinator in turn
	tried   int       // coordinators asked in vain in this round
	spareAt int       // next fallback in turn
	spare   time.Time // no fallback before
	silent  []silence // who is passed over, by address
}

// silence is a coordinator that has let a poll wait in vain.
type silence struct {
	addr  string
	until time.Time // passed over
}

type poll struct {
	to       string
	since    time.Time
	hinted   bool // asked because a standby named it, or because it is active
	fallback bool
}

// NewWatcher is a watcher without candidates.
func NewWatcher(cfg WatchConfig) *Watcher { return &Watcher{cfg: cfg} }

// SetCandidates says where coordinators may be, and which regions serve their
// table (fallbacks; none for regions themselves). They are asked in the order
// given; empty and repeated addresses are ignored. What is known of the active
// coordinator stays.
func (w *Watcher) SetCandidates(coordinators, fallbacks []string) {
	w.coordinators = distinct(coordinators)
	w.fallbacks = distinct(fallbacks)
}

func distinct(addrs []string) []string {
	var out []string
	for _, a := range addrs {
		if a != "" && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// Changed takes the answer to a poll. It returns false if the answer must be
// dropped: it comes from a coordinator of a lower term than a table before.
// The caller applies it otherwise, and polls again.
func (w *Watcher) Changed(now time.Time, from string, d sharding.TableDelta) bool {
	answered, p := w.answer(from)
	w.spoke(from)
	fallback := p.fallback
	if !answered {
		fallback = slices.Contains(w.fallbacks, from) && !slices.Contains(w.coordinators, from)
	}
	switch {
	case fallback:
		w.term = max(w.term, d.Version.Term)
		if answered {
			w.next = now.Add(w.cfg.Retry)
		}
	case d.Version.Term < w.term && !mutant.On("watch-term"):
		w.gone(from)
		if answered {
			w.vain(now, p, w.cfg.Retry)
		}
		return false
	default:
		w.term, w.named, w.active, w.hint = d.Version.Term, 0, from, from
		w.tried, w.next = 0, now
		w.spare = now.Add(2 * w.cfg.Timeout)
	}
	if d.Version.Compare(w.version) > 0 {
		w.version = d.Version
	}
	return true
}

// NotActive takes the answer of a standby. Whom it names is asked next, unless
// it speaks of a lower term than tables came from, or was itself named by a
// standby and names no higher term than others did: then the turn goes on after a
// pause.
func (w *Watcher) NotActive(now time.Time, from string, active sharding.NodeID, term sharding.Term) {
	answered, p := w.answer(from)
	w.gone(from)
	w.spoke(from)
	news := term > max(w.term, w.named)
	if news {
		w.spoke(active.Addr) // later than it was silent
	}
	follow := active.Addr != "" && active.Addr != from && term >= w.term && (news || !p.hinted) && !w.isSilent(now, active.Addr)
	if news {
		w.named = term
		if w.active != active.Addr {
			w.active = "" // of an older term; the named one has not answered yet
		}
	}
	if answered {
		w.vain(now, p, w.cfg.Retry)
	}
	if follow {
		w.hint = active.Addr
		if answered {
			w.next = now
		}
	}
}

// Failed takes the news that a poll could not be made or broke.
func (w *Watcher) Failed(now time.Time, from string) {
	if answered, p := w.answer(from); answered {
		w.gone(from)
		// Whoever makes the poll may give it up a moment before Poll does.
		if now.Sub(p.since) >= w.cfg.Timeout*3/4 {
			w.fellSilent(now, p)
		}
		w.vain(now, p, w.cfg.Retry)
	}
}

// Poll tells whom to ask now, and for changes since which version. It is
// called after every input and on every tick; mostly there is nothing to ask.
func (w *Watcher) Poll(now time.Time) (to string, since sharding.Version, ask bool) {
	if w.asked.to != "" {
		if now.Sub(w.asked.since) < w.cfg.Timeout {
			return "", since, false
		}
		_, p := w.answer(w.asked.to)
		w.gone(p.to)
		w.fellSilent(now, p)
		w.vain(now, p, 0)
	}
	if now.Before(w.next) {
		return "", since, false
	}
	p := poll{since: now}
	w.passOver(now)
	switch {
	case w.hint != "":
		p.to, p.hinted = w.hint, true
	case w.tried >= len(w.coordinators) && len(w.fallbacks) > 0 && !now.Before(w.spare):
		p.to, p.fallback = w.fallbacks[w.spareAt%len(w.fallbacks)], true
		w.spareAt = (w.spareAt + 1) % len(w.fallbacks)
		w.tried = 0
	case len(w.coordinators) > 0:
		w.at %= len(w.coordinators)
		p.to = w.coordinators[w.at]
		if w.tried >= len(w.coordinators) {
			w.tried = 0
		}
	default:
		return "", since, false
	}
	w.asked = p
	return p.to, w.version, true
}

// Active is where messages to the coordinator go now, and the highest term that
// a table came from. The address is empty while no active coordinator is known.
func (w *Watcher) Active() (addr string, term sharding.Term) { return w.active, w.term }

// answer ends the outstanding poll if it was made to from.
func (w *Watcher) answer(from string) (bool, poll) {
	if from == "" || w.asked.to != from {
		return false, poll{}
	}
	p := w.asked
	w.asked = poll{}
	return true, p
}

// gone forgets that from was thought to be active.
func (w *Watcher) gone(from string) {
	if w.active == from {
		w.active = ""
	}
	if w.hint == from {
		w.hint = ""
	}
}

// fellSilent passes a coordinator over that has let a poll wait.
func (w *Watcher) fellSilent(now time.Time, p poll) {
	if p.fallback {
		return
	}
	w.spoke(p.to)
	w.silent = append(w.silent, silence{p.to, now.Add(w.cfg.Timeout)})
	slices.SortFunc(w.silent, func(a, b silence) int { return strings.Compare(a.addr, b.addr) })
}

// spoke takes a coordinator as one like any other again.
func (w *Watcher) spoke(addr string) {
	w.silent = slices.DeleteFunc(w.silent, func(s silence) bool { return s.addr == addr })
}

func (w *Watcher) isSilent(now time.Time, addr string) bool {
	return slices.ContainsFunc(w.silent, func(s silence) bool { return s.addr == addr && now.Before(s.until) })
}

// passOver moves the turn past silent coordinators, unless all of them are.
func (w *Watcher) passOver(now time.Time) {
	w.silent = slices.DeleteFunc(w.silent, func(s silence) bool { return !now.Before(s.until) })
	if len(w.coordinators) == 0 || !slices.ContainsFunc(w.coordinators, func(addr string) bool { return !w.isSilent(now, addr) }) {
		return
	}
	for w.isSilent(now, w.coordinators[w.at%len(w.coordinators)]) {
		w.at++
		w.tried++
	}
}

// vain moves on after a poll that found no active coordinator. One that was
// asked out of turn does not move the turn: else a standby that keeps naming a
// dead one before it would hide those behind itself.
func (w *Watcher) vain(now time.Time, p poll, pause time.Duration) {
	w.next = now.Add(pause)
	if p.fallback {
		return
	}
	if len(w.coordinators) > 0 && w.coordinators[w.at%len(w.coordinators)] == p.to {
		w.at++
		w.tried++
	}
}

// Check verifies the invariants of the watcher.
func (w *Watcher) Check() error {
	switch {
	case w.tried < 0 || w.at < 0 || w.spareAt < 0:
		return fmt.Errorf("watcher: negative position %d, %d, %d", w.tried, w.at, w.spareAt)
	case w.asked.to == "" && w.asked != poll{}:
		return fmt.Errorf("watcher: a poll to nobody")
	case w.asked.fallback && w.asked.hinted:
		return fmt.Errorf("watcher: fallback %s taken for a coordinator", w.asked.to)
	}
	return nil
}

// Clone is an independent copy.
func (w *Watcher) Clone() *Watcher {
	c := *w
	c.coordinators = slices.Clone(w.coordinators)
	c.fallbacks = slices.Clone(w.fallbacks)
	c.silent = slices.Clone(w.silent)
	return &c
}

// AppendState appends a canonical encoding, with times relative to now.
func (w *Watcher) AppendState(b []byte, now time.Time) []byte {
	for _, list := range [][]string{w.coordinators, w.fallbacks, {w.active, w.hint, w.asked.to}} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, s := range list {
			b = appendString(b, s)
		}
	}
	b = binary.AppendUvarint(b, uint64(w.term))
	b = binary.AppendUvarint(b, uint64(w.named))
	b = binary.AppendUvarint(b, uint64(w.version.Term))
	b = binary.AppendUvarint(b, w.version.N)
	b = appendBool(appendBool(b, w.asked.hinted), w.asked.fallback)
	if w.asked.to != "" {
		b = binary.AppendVarint(b, int64(now.Sub(w.asked.since)))
	}
	b = binary.AppendVarint(b, int64(max(0, w.next.Sub(now))))
	b = binary.AppendVarint(b, int64(max(0, w.spare.Sub(now))))
	b = binary.AppendUvarint(b, uint64(len(w.silent)))
	for _, s := range w.silent {
		b = binary.AppendVarint(appendString(b, s.addr), int64(max(0, s.until.Sub(now))))
	}
	for _, n := range []int{w.at, w.tried, w.spareAt} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

package routetable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// WatchConfig sets the times of a [Watcher].
type WatchConfig struct {
	// Timeout bounds the wait for an answer before the next candidate is polled. A candidate that
	// did not answer is skipped for as long. Default 2 s: twice as long as a coordinator holds a
	// poll.
	Timeout time.Duration
	// Retry is the pause after a refused connection or a useless answer, so that a
	// dead cluster is not hammered. Default 100 ms.
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

// Watcher decides which address is polled for the table next. At most one poll is
// outstanding; an answer is followed by the next poll at once. The watcher finds
// the active coordinator by polling the candidates in turn, and by following what
// standbys say.
//
// Tables from a term below the highest one received are dropped. A term that a
// standby merely names does not count: it may never have been claimed in the
// journal, and after a loss of the lease's record the active coordinator can have
// a lower one.
//
// A coordinator whose machine is gone costs the whole Timeout. It is then a
// suspect and skipped for as long again, even if standbys that have not noticed
// yet still name it.
//
// When all coordinators have been polled without success, one fallback is polled: a region
// that serves its copy of the table read-only. Its rows are as good as any (newer ones
// win), but it is never taken for a coordinator. A region may hold the poll as long as a
// coordinator does, and meanwhile the watcher would not find a new coordinator. So a
// watcher that has a table polls no fallback for some time after its last coordinator
// answered: a new coordinator is expected in that time.
type Watcher struct {
	cfg          WatchConfig
	coordinators []string
	fallbacks    []string

	term      sharding.Term    // the highest of the tables received
	namedTerm sharding.Term    // the highest named by a standby since a coordinator answered
	version   sharding.Version // the highest accepted: the next poll asks for changes since
	active    string           // where messages to the coordinator go, or ""
	hint      string           // the address to poll next: the active one, or one that a standby named

	outstanding     poll      // if outstanding.to is not ""
	nextPoll        time.Time // the earliest time
	nextCoordinator int       // the index of the coordinator whose turn it is
	triedInRound    int       // coordinators polled without success in this round
	nextFallback    int       // the index of the fallback whose turn it is
	fallbackAfter   time.Time // no fallback is polled before
	suspects        []suspect // sorted by address
}

// suspect is a coordinator that did not answer a poll in time.
type suspect struct {
	addr  string
	until time.Time // the coordinator is not polled before
}

type poll struct {
	to       string
	since    time.Time
	hinted   bool // asked because a standby named it, or because it is active
	fallback bool
}

// NewWatcher is a watcher without candidates.
func NewWatcher(cfg WatchConfig) *Watcher { return &Watcher{cfg: cfg} }

// SetCandidates sets the addresses of possible coordinators, and of the regions that serve their
// table (fallbacks; none for regions themselves). They are polled in the order given; empty and
// repeated addresses are ignored. The watcher keeps its knowledge of the active coordinator.
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

// Changed handles the answer to a poll. It returns false if the answer must be
// dropped, because it comes from a coordinator of a lower term than an earlier
// table. Otherwise the caller applies it, and polls again.
func (w *Watcher) Changed(now time.Time, from string, d sharding.TableDelta) bool {
	answered, p := w.answer(from)
	w.clearSuspect(from)
	fallback := p.fallback
	if !answered {
		fallback = slices.Contains(w.fallbacks, from) && !slices.Contains(w.coordinators, from)
	}
	switch {
	case fallback:
		w.term = max(w.term, d.Version.Term)
		if answered {
			w.nextPoll = now.Add(w.cfg.Retry)
		}
	case d.Version.Term < w.term: //mutant:false watch-term
		w.deactivate(from)
		if answered {
			w.pollFailed(now, p, w.cfg.Retry)
		}
		return false
	default:
		w.term, w.namedTerm, w.active, w.hint = d.Version.Term, 0, from, from
		w.triedInRound, w.nextPoll = 0, now
		w.fallbackAfter = now.Add(2 * w.cfg.Timeout)
	}
	if d.Version.Compare(w.version) > 0 {
		w.version = d.Version
	}
	return true
}

// NotActive handles the answer of a standby. The coordinator that it names is polled next, with two
// exceptions: the term is lower than the term of the tables received, or the standby was itself
// named by another one and its term is not higher than any named before. Then the next candidate
// follows after a pause.
func (w *Watcher) NotActive(now time.Time, from string, active sharding.NodeID, term sharding.Term) {
	answered, p := w.answer(from)
	w.deactivate(from)
	w.clearSuspect(from)
	news := term > max(w.term, w.namedTerm)
	if news {
		w.clearSuspect(active.Addr) // it was alive after it became a suspect
	}
	follow := active.Addr != "" && active.Addr != from && term >= w.term && (news || !p.hinted) && !w.isSuspect(now, active.Addr)
	if news {
		w.namedTerm = term
		if w.active != active.Addr {
			w.active = "" // of an older term; the named one has not answered yet
		}
	}
	if answered {
		w.pollFailed(now, p, w.cfg.Retry)
	}
	if follow {
		w.hint = active.Addr
		if answered {
			w.nextPoll = now
		}
	}
}

// Failed handles a poll that could not be sent or broke.
func (w *Watcher) Failed(now time.Time, from string) {
	if answered, p := w.answer(from); answered {
		w.deactivate(from)
		// The driver may give the poll up slightly before Poll does.
		if now.Sub(p.since) >= w.cfg.Timeout*3/4 {
			w.addSuspect(now, p)
		}
		w.pollFailed(now, p, w.cfg.Retry)
	}
}

// Poll returns the address to poll now, and the version since which to ask for
// changes. It is called after every input and on every tick; ask is false if
// there is nothing to do.
func (w *Watcher) Poll(now time.Time) (to string, since sharding.Version, ask bool) {
	if w.outstanding.to != "" {
		if now.Sub(w.outstanding.since) < w.cfg.Timeout {
			return "", since, false
		}
		_, p := w.answer(w.outstanding.to)
		w.deactivate(p.to)
		w.addSuspect(now, p)
		w.pollFailed(now, p, 0)
	}
	if now.Before(w.nextPoll) {
		return "", since, false
	}
	p := poll{since: now}
	w.skipSuspects(now)
	switch {
	case w.hint != "":
		p.to, p.hinted = w.hint, true
	case w.triedInRound >= len(w.coordinators) && len(w.fallbacks) > 0 && !now.Before(w.fallbackAfter):
		p.to, p.fallback = w.fallbacks[w.nextFallback%len(w.fallbacks)], true
		w.nextFallback = (w.nextFallback + 1) % len(w.fallbacks)
		w.triedInRound = 0
	case len(w.coordinators) > 0:
		w.nextCoordinator %= len(w.coordinators)
		p.to = w.coordinators[w.nextCoordinator]
		if w.triedInRound >= len(w.coordinators) {
			w.triedInRound = 0
		}
	default:
		return "", since, false
	}
	w.outstanding = p
	return p.to, w.version, true
}

// Due returns the time before which Poll returns no address, unless an input comes. It is false if Poll
// returns none at any time.
func (w *Watcher) Due() (at time.Time, ok bool) {
	switch {
	case w.outstanding.to != "":
		return w.outstanding.since.Add(w.cfg.Timeout), true
	case w.hint == "" && len(w.coordinators) == 0 && len(w.fallbacks) == 0:
		return time.Time{}, false
	}
	return w.nextPoll, true
}

// PollsCopy reports whether the outstanding poll goes to a fallback: only then may the answer be
// the copy of a region.
func (w *Watcher) PollsCopy() bool { return w.outstanding.fallback }

// Active returns the address for messages to the coordinator, and the highest term of the tables
// received. The address is empty while no active coordinator is known.
func (w *Watcher) Active() (addr string, term sharding.Term) { return w.active, w.term }

// answer ends the outstanding poll if it was made to from.
func (w *Watcher) answer(from string) (bool, poll) {
	if from == "" || w.outstanding.to != from {
		return false, poll{}
	}
	p := w.outstanding
	w.outstanding = poll{}
	return true, p
}

// deactivate forgets that from may be active.
func (w *Watcher) deactivate(from string) {
	if w.active == from {
		w.active = ""
	}
	if w.hint == from {
		w.hint = ""
	}
}

// addSuspect makes a coordinator that did not answer a poll a suspect.
func (w *Watcher) addSuspect(now time.Time, p poll) {
	if p.fallback {
		return
	}
	w.clearSuspect(p.to)
	w.suspects = append(w.suspects, suspect{p.to, now.Add(w.cfg.Timeout)})
	slices.SortFunc(w.suspects, func(a, b suspect) int { return strings.Compare(a.addr, b.addr) })
}

// clearSuspect makes a coordinator a candidate like any other again.
func (w *Watcher) clearSuspect(addr string) {
	w.suspects = slices.DeleteFunc(w.suspects, func(s suspect) bool { return s.addr == addr })
}

func (w *Watcher) isSuspect(now time.Time, addr string) bool {
	return slices.ContainsFunc(w.suspects, func(s suspect) bool { return s.addr == addr && now.Before(s.until) })
}

// skipSuspects moves the turn past suspects, unless all coordinators are suspects.
func (w *Watcher) skipSuspects(now time.Time) {
	w.suspects = slices.DeleteFunc(w.suspects, func(s suspect) bool { return !now.Before(s.until) })
	if len(w.coordinators) == 0 || !slices.ContainsFunc(w.coordinators, func(addr string) bool { return !w.isSuspect(now, addr) }) {
		return
	}
	for w.isSuspect(now, w.coordinators[w.nextCoordinator%len(w.coordinators)]) {
		w.nextCoordinator++
		w.triedInRound++
	}
}

// pollFailed moves on after a poll that found no active coordinator. A coordinator
// polled out of turn does not move the turn: otherwise a standby that keeps naming
// a dead one before it would hide the candidates behind itself.
func (w *Watcher) pollFailed(now time.Time, p poll, pause time.Duration) {
	w.nextPoll = now.Add(pause)
	if p.fallback {
		return
	}
	if len(w.coordinators) > 0 && w.coordinators[w.nextCoordinator%len(w.coordinators)] == p.to {
		w.nextCoordinator++
		w.triedInRound++
	}
}

// Check verifies the invariants of the watcher.
func (w *Watcher) Check() error {
	switch {
	case w.triedInRound < 0 || w.nextCoordinator < 0 || w.nextFallback < 0:
		return fmt.Errorf("watcher: negative position %d, %d, %d", w.triedInRound, w.nextCoordinator, w.nextFallback)
	case w.outstanding.to == "" && w.outstanding != poll{}:
		return fmt.Errorf("watcher: a poll without an address")
	case w.outstanding.fallback && w.outstanding.hinted:
		return fmt.Errorf("watcher: fallback %s taken for a coordinator", w.outstanding.to)
	}
	return nil
}

// Clone is an independent copy.
func (w *Watcher) Clone() *Watcher {
	c := *w
	c.coordinators = slices.Clone(w.coordinators)
	c.fallbacks = slices.Clone(w.fallbacks)
	c.suspects = slices.Clone(w.suspects)
	return &c
}

// AppendState appends a canonical encoding, with times relative to now.
func (w *Watcher) AppendState(b []byte, now time.Time) []byte {
	for _, list := range [][]string{w.coordinators, w.fallbacks, {w.active, w.hint, w.outstanding.to}} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, s := range list {
			b = sharding.AppendString(b, s)
		}
	}
	b = binary.AppendUvarint(b, uint64(w.term))
	b = binary.AppendUvarint(b, uint64(w.namedTerm))
	b = binary.AppendUvarint(b, uint64(w.version.Term))
	b = binary.AppendUvarint(b, w.version.N)
	b = appendBool(appendBool(b, w.outstanding.hinted), w.outstanding.fallback)
	if w.outstanding.to != "" {
		b = binary.AppendVarint(b, int64(now.Sub(w.outstanding.since)))
	}
	b = binary.AppendVarint(b, int64(max(0, w.nextPoll.Sub(now))))
	b = binary.AppendVarint(b, int64(max(0, w.fallbackAfter.Sub(now))))
	b = binary.AppendUvarint(b, uint64(len(w.suspects)))
	for _, s := range w.suspects {
		b = binary.AppendVarint(sharding.AppendString(b, s.addr), int64(max(0, s.until.Sub(now))))
	}
	for _, n := range []int{w.nextCoordinator, w.triedInRound, w.nextFallback} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

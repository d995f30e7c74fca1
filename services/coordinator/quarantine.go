package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// The command of one entity may end the whole process of its region: by os.Exit, by a panic in a
// goroutine of its own, by taking all memory. The shard then goes to the next region, the command comes
// again, and ends that region too. So the coordinator counts, for each entity, the crashes during which a
// turn of the entity ran:
//
//   - A region that starts says how its previous process has ended, and which turns ran then
//     (control.Crash). Each of these entities is a suspect from then on. A region runs the turns of
//     suspects one at a time: each suspect runs alone. If a turn hangs, others run beside it after a while.
//   - An entity with Config.QuarantineCrashes crashes within Config.QuarantineWindow is quarantined,
//     if one of these is true for the newest crash: the entity ran alone; or the runtime has written why
//     the process ended, and no other entity that ran has so many crashes, or this one has even more and no
//     other one with even more ran alone.
//   - The regions of a quarantined entity do not run it. The other entities of its shard are served.
//
// A process that is killed from outside also ends while some turns run. If the same entity happens to run at
// several of these moments, it must not be quarantined for it. Such a crash has no cause: the runtime has
// written nothing. So at a crash without a cause, only an entity that ran alone is quarantined. And the crash
// does not count for an entity that has run alone in this process several times before (cleanTurns), nor for
// an entity whose turn had just ended.

// QuarantineState says what is known about an entity.
type QuarantineState uint8

// The states. The numbers are stored, so a number must keep its meaning.
const (
	Released    QuarantineState = iota // neither suspected nor quarantined, or not any more
	Suspected                          // its turns run, but not beside those of another suspect
	Quarantined                        // it does not run
)

// String returns the name of the state.
func (s QuarantineState) String() string {
	switch s {
	case Released:
		return "released"
	case Suspected:
		return "suspect"
	case Quarantined:
		return "quarantined"
	}
	return "unknown"
}

// QuarantineFact: the entity is a suspect, or quarantined, or neither any more.
type QuarantineFact struct {
	Entity sharding.Entity
	State  QuarantineState
	// Command ran at the newest crash; "": the entity was brought to life, or an operator has quarantined
	// it. Cause is what the runtime wrote at the newest crash that it has explained.
	Command, Cause string
	Crashes        []CountedCrash // oldest first
	Note
}

// CountedCrash is a crash of a region during which the entity ran.
type CountedCrash struct {
	Process sharding.NodeUID
	Region  string // the name of the region
	At      time.Time
}

// QuarantineChanged says, for the log, that an entity is suspected, or quarantined, or not any more.
type QuarantineChanged struct{ QuarantineFact }

// QuarantineFull says, for the log, that an entity that ran at a crash is not suspected, because as many
// entities as are allowed are quarantined.
type QuarantineFull struct{ Entity sharding.Entity }

func (QuarantineFact) fact()      {}
func (QuarantineChanged) output() {}
func (QuarantineFull) output()    {}

const (
	// cleanTurns is how many turns of the same command of a suspect must have run alone in a process, without a
	// crash, so that a crash of this process without a cause does not count for the suspect. A command that makes
	// regions crash does so nearly every time.
	cleanTurns = 8
	// maxCrashTurns bounds the turns of one report that are looked at.
	maxCrashTurns = 64
	// maxCrashText bounds what the runtime wrote, in bytes.
	maxCrashText = 200
	// crashSoon is how soon after a region has got a shard its loss may be the fault of an entity of that
	// shard.
	crashSoon = 30 * time.Second
	// maxReports bounds the processes that are known to have reported.
	maxReports = 1024
	// patienceDoublings is how often Config.CrashPatience doubles at most, see waitsForReport: up to 48 s with
	// the default. Platforms start a process that ends again and again in longer and longer intervals.
	patienceDoublings = 4
)

// crashReport says that it is known how a process has ended.
type crashReport struct {
	process sharding.NodeUID
	at      time.Time
	ran     []sharding.Entity // entities of which turns ran then
	more    bool              // the report has more turns than are looked at
}

func (t *typeTable) searchSuspect(id sharding.EntityID) (int, bool) {
	return slices.BinarySearchFunc(t.suspects, id, func(f QuarantineFact, id sharding.EntityID) int { return cmp.Compare(f.Entity.ID, id) })
}

func (m *Machine) applyQuarantine(f QuarantineFact) {
	i, found := m.searchType(f.Entity.Type)
	if !found || f.State > Quarantined || mutant.On("quarantine-kept") && !m.recovered {
		return
	}
	t := m.types[i]
	at, has := t.searchSuspect(f.Entity.ID)
	switch {
	case f.State == Released && has:
		t.suspects = slices.Delete(t.suspects, at, at+1)
	case f.State == Released:
		return
	case has:
		t.suspects[at] = f
	default:
		t.suspects = slices.Insert(t.suspects, at, f)
	}
	t.showQuarantine()
	t.changed = m.count(change{shard: sharding.ShardID{Type: t.desc.Type}, isType: true})
	t.quarantineChanged = t.changed
}

// showQuarantine has the route table show the suspects and the quarantined entities of a type.
func (t *typeTable) showQuarantine() {
	t.desc.Quarantined = nil
	for _, f := range t.suspects {
		t.desc.Quarantined = append(t.desc.Quarantined, sharding.Quarantined{ID: f.Entity.ID, Suspect: f.State == Suspected, Why: f.text()})
	}
}

// text says why an entity is quarantined, for those whose commands are refused.
func (f *QuarantineFact) text() string {
	return fmt.Sprintf("since %s, %s: %s. See roost quarantine list; roost quarantine release %s %s ends it",
		f.At.UTC().Format(time.RFC3339), cmp.Or(f.By, "nobody"), cmp.Or(f.Reason, "no reason was given"), f.Entity.Type, f.Entity.ID)
}

// orderTable returns the version of the table that a region must know before it takes a shard of the type.
func (m *Machine) orderTable(t *typeTable) sharding.Version {
	if t.quarantineChanged == 0 || mutant.On("quarantine-first") {
		return sharding.Version{}
	}
	return sharding.Version{Term: m.term, N: t.quarantineChanged}
}

// crashed takes in how a process of a region has ended.
func (m *Machine) crashed(name string, c control.Crash) {
	if c.Of == 0 || m.cfg.QuarantineCrashes == 0 {
		return
	}
	if m.report(c.Of) == nil {
		m.reports = append(m.reports[max(0, len(m.reports)-maxReports+1):], m.newReport(c))
		m.reviewDue = true // shards may wait for this report
	}
	if c.Ago < 0 || c.Ago > m.cfg.QuarantineWindow {
		return
	}
	if slices.ContainsFunc(c.Turns, m.quarantinedTurn) && !mutant.On("quarantine-culprit") {
		return // the region did not know yet that the entity is quarantined, which has surely ended it
	}
	crash := CountedCrash{Process: c.Of, Region: name, At: factTime(m.now.Add(-c.Ago))}
	var facts []QuarantineFact
	alone, ended := -1, []bool{}
	for i, turn := range c.Turns[:min(len(c.Turns), maxCrashTurns)] {
		f, counts := m.suspect(turn, crash, c.Cause)
		if !counts || slices.ContainsFunc(c.Turns[:i], func(o control.CrashedTurn) bool { return o.Entity == turn.Entity }) {
			continue
		}
		if turn.Alone && !turn.Ended {
			alone = len(facts)
		}
		facts, ended = append(facts, f), append(ended, turn.Ended)
	}
	m.convict(facts, ended, alone, c.Cause != "")
	for _, f := range facts {
		m.setQuarantine(f)
	}
}

// quarantinedTurn reports whether the entity of a turn is quarantined.
func (m *Machine) quarantinedTurn(turn control.CrashedTurn) bool {
	i, found := m.searchType(turn.Entity.Type)
	if !found {
		return false
	}
	at, has := m.types[i].searchSuspect(turn.Entity.ID)
	return has && m.types[i].suspects[at].State == Quarantined
}

// suspect returns the fact about an entity that ran at a crash, and whether the crash counts for it.
func (m *Machine) suspect(turn control.CrashedTurn, crash CountedCrash, cause string) (QuarantineFact, bool) {
	i, found := m.searchType(turn.Entity.Type)
	if !found || turn.Entity.Check() != nil {
		return QuarantineFact{}, false
	}
	f := QuarantineFact{Entity: turn.Entity}
	if at, has := m.types[i].searchSuspect(turn.Entity.ID); has {
		f = m.types[i].suspects[at]
	}
	again := slices.ContainsFunc(f.Crashes, func(c CountedCrash) bool { return c.Process == crash.Process })
	cleared := cause == "" && (turn.Clean >= cleanTurns || turn.Ended) && !mutant.On("quarantine-clean")
	if f.State == Quarantined || again && !mutant.On("quarantine-repeats") || cleared {
		return f, false
	}
	f.Crashes = append(m.freshCrashes(f.Crashes), crash)
	f.State, f.Command = Suspected, clip(turn.Command, sharding.MaxTypeLen)
	if cause != "" {
		f.Cause = clip(cause, maxCrashText)
	}
	f.Note = m.note("roost", "a turn of it ran when "+f.regions()+" ended"+f.explained())
	return f, true
}

// convict decides which of the suspects of a crash are quarantined. The parameter ended says, for each of
// them, whether its turn had just ended: a goroutine that the turn has started may have made the process
// crash. alone is the index of the suspect that ran alone, or -1. explained says that the runtime has written
// why the process ended.
func (m *Machine) convict(facts []QuarantineFact, ended []bool, alone int, explained bool) {
	k := m.cfg.QuarantineCrashes
	var guilty []int
	behind := false // the cause may be a goroutine of a turn that had ended
	for i := range facts {
		if len(facts[i].Crashes) >= k {
			guilty, behind = append(guilty, i), behind || ended[i]
		}
	}
	switch {
	case mutant.On("quarantine-count"):
		guilty = nil
		for i := range facts {
			guilty = append(guilty, i)
		}
	case alone >= 0 && len(facts[alone].Crashes) >= k && !behind:
		guilty = []int{alone}
	case mutant.On("quarantine-alone"):
	case !explained:
		guilty = nil // each runs alone from now on, so the next crash tells more
	case len(guilty) > 1: // several ran at k crashes; those that ran at one more are quarantined
		guilty = slices.DeleteFunc(guilty, func(i int) bool { return len(facts[i].Crashes) <= k })
		if slices.Contains(guilty, alone) && !mutant.On("quarantine-behind") {
			guilty = []int{alone} // a turn that runs is more likely to be the cause than what is left of one that has ended
		}
	}
	for _, i := range guilty {
		f := &facts[i]
		f.State = Quarantined
		f.Note = m.note("roost", clip("its "+f.turn()+" ended "+f.regions()+f.explained(), m.cfg.MaxReason))
	}
}

// setQuarantine commits a fact about an entity, if the limits allow it.
func (m *Machine) setQuarantine(f QuarantineFact) {
	i, found := m.searchType(f.Entity.Type)
	if !found {
		return
	}
	if _, has := m.types[i].searchSuspect(f.Entity.ID); !has && f.State != Released && !m.roomForSuspect() {
		m.emit(QuarantineFull{Entity: f.Entity})
		return
	}
	if f.State != Suspected {
		m.explainRequest(f)
	}
	m.commit(f, QuarantineChanged{f})
}

// roomForSuspect makes room for one more suspect: the suspect without a crash for the longest time is
// released. It reports whether there is room.
func (m *Machine) roomForSuspect() bool {
	var oldest *QuarantineFact
	n := 0
	for _, t := range m.types {
		n += len(t.suspects)
		for i := range t.suspects {
			if f := &t.suspects[i]; f.State == Suspected && (oldest == nil || f.At.Before(oldest.At)) {
				oldest = f
			}
		}
	}
	switch {
	case n < m.cfg.MaxQuarantined:
		return true
	case oldest == nil:
		return false
	}
	m.commit(QuarantineFact{Entity: oldest.Entity, Note: m.note("roost", "others are suspected")})
	return true
}

// freshCrashes returns those crashes that are within the window.
func (m *Machine) freshCrashes(list []CountedCrash) (fresh []CountedCrash) {
	for _, c := range list {
		if m.now.Sub(c.At) <= m.cfg.QuarantineWindow || mutant.On("quarantine-window") {
			fresh = append(fresh, c)
		}
	}
	return fresh
}

// forgetSuspects releases the suspects whose crashes are all too long ago.
func (m *Machine) forgetSuspects() {
	var old []sharding.Entity
	for _, t := range m.types {
		for _, f := range t.suspects {
			if f.State == Suspected && len(m.freshCrashes(f.Crashes)) == 0 {
				old = append(old, f.Entity)
			}
		}
	}
	for _, e := range old {
		f := QuarantineFact{Entity: e, Note: m.note("roost", fmt.Sprintf("no region has ended for %v while it ran", m.cfg.QuarantineWindow))}
		m.commit(f, QuarantineChanged{f})
	}
}

func (f *QuarantineFact) turn() string {
	if f.Command == "" {
		return "start or stop"
	}
	return "command " + f.Command
}

// regions names the regions that ended, for people.
func (f *QuarantineFact) regions() string {
	var names []string
	for _, c := range f.Crashes {
		names = append(names, cmp.Or(c.Region, "a region"))
	}
	return strings.Join(names, ", ")
}

func (f *QuarantineFact) explained() string {
	if f.Cause == "" {
		return ""
	}
	return " (" + f.Cause + ")"
}

// clip cuts a text to a number of bytes, and leaves out what is no valid text.
func clip(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// newReport returns which entities ran at a crash.
func (m *Machine) newReport(c control.Crash) crashReport {
	r := crashReport{process: c.Of, at: m.now, more: len(c.Turns) > maxCrashTurns}
	for _, turn := range c.Turns[:min(len(c.Turns), maxCrashTurns)] {
		r.ran = append(r.ran, turn.Entity)
	}
	return r
}

// clears reports whether the entities of a shard that run now had no part in a crash.
func (m *Machine) clears(report *crashReport, shard sharding.ShardID) bool {
	if report == nil || report.more || mutant.On("quarantine-others") {
		return false
	}
	return !slices.ContainsFunc(report.ran, func(e sharding.Entity) bool {
		_, row := m.rowOf(e)
		return row != nil && row.Shard == shard && !m.quarantinedTurn(control.CrashedTurn{Entity: e})
	})
}

// report returns what is known about how a process has ended; nil: nothing is.
func (m *Machine) report(process sharding.NodeUID) *crashReport {
	if i := slices.IndexFunc(m.reports, func(r crashReport) bool { return r.process == process }); i >= 0 {
		return &m.reports[i]
	}
	return nil
}

// waitsForReport reports whether a shard whose holder is lost waits for reports about its last holders. If as
// many as QuarantineCrashes were lost, one after the other, each soon after it was given the shard, an entity
// of the shard may have made them crash, and may do the same to the next region. It does not matter whether a
// holder has said that it serves the shard: the first turn may end the process before that message leaves it.
//
// The processes that are started in place of the lost holders report which entities ran. If no entity of the
// shard ran at a loss, or only such that are quarantined by now, this loss and those before it do not count. If
// a machine is gone, no process is started there, so the shard waits only for Config.CrashPatience, and for
// twice as long after each further loss: the more regions have crashed, the less likely it is that they will
// not start again, and the more a shard can harm.
func (m *Machine) waitsForReport(r *row) bool {
	k := m.cfg.QuarantineCrashes
	if k == 0 || r.Phase == sharding.Starting && mutant.On("quarantine-starting") || mutant.On("quarantine-waits") {
		return false
	}
	if r.lostSince.IsZero() {
		r.lostSince = m.now
	}
	if r.lostSince.Sub(r.heldSince()) > crashSoon {
		return false
	}
	ended, missing := 0, false // missing: of the newest QuarantineCrashes losses
	for i := len(r.losses); i >= 0; i-- {
		of := r.awaited()
		if i < len(r.losses) {
			if of = r.losses[i]; m.reachable(of) { // it was only unreachable for a while
				continue
			}
		}
		report := m.report(of.UID)
		if m.clears(report, r.Shard) {
			break
		}
		ended++
		missing = missing || ended <= k && report == nil
	}
	if ended < k || !missing || m.now.Sub(r.lostSince) >= m.crashPatience(ended) {
		return false
	}
	m.waitingForReports = true
	return true
}

func (m *Machine) reachable(node sharding.NodeID) bool {
	o := m.region(node)
	return o != nil && o.reachable
}

// crashPatience returns how long a shard waits for reports after so many owners were lost.
func (m *Machine) crashPatience(ended int) time.Duration {
	if mutant.On("quarantine-patience") {
		return m.cfg.CrashPatience
	}
	return m.cfg.CrashPatience << min(ended-m.cfg.QuarantineCrashes, patienceDoublings)
}

// heldSince returns since when the region that r.awaited returns may have served the shard.
func (r *row) heldSince() time.Time {
	if r.released {
		return r.since
	}
	return r.given
}

// withLoss returns the losses of a shard when it goes from a lost holder to another region.
func (m *Machine) withLoss(r *row) []sharding.NodeID {
	before, lost, holder := r.losses, r.lostSince, r.awaited()
	if lost.IsZero() {
		lost = m.now
	}
	if lost.Sub(r.heldSince()) > crashSoon {
		before = nil // it has served the shard for a while
	}
	if m.cfg.QuarantineCrashes == 0 || len(before) > 0 && before[len(before)-1] == holder {
		return before
	}
	losses := append(slices.Clip(before), holder)
	return losses[max(0, len(losses)-m.cfg.QuarantineCrashes+1-patienceDoublings):]
}

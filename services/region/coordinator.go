package region

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// receive takes a message that some process sent. It reports whether it is one for a
// region.
func (m *Machine) receive(in Received) bool {
	switch msg := in.Msg.(type) {
	case control.HostShard:
		if m.current(msg.Term) && plausible(msg.Epoch, msg.Term) {
			m.hostShard(in.From, msg)
		}
	case control.HandOff:
		if m.current(msg.Term) && plausible(msg.Epoch, msg.Term) {
			m.handOff(in.From, msg)
		}
	case control.WatchTable: // this region's copy, for a gateway that knows no coordinator
		m.emit(Reply{Call: in.Call, Msg: control.TableChanged{Delta: m.table.Delta(msg.Version)}})
	default:
		return false
	}
	return true
}

// replied takes the answer to a call. It reports whether it is one that a region may
// get.
func (m *Machine) replied(in Replied) bool {
	switch in.Asked.(type) {
	case control.WatchTable:
		return m.watched(in.From, in.Msg)
	case control.Register:
		switch msg := in.Msg.(type) {
		case control.RegisterAck:
			m.registerAck(in.From, in.Asked.(control.Register), msg)
			return true
		case nil, control.NotActive: // it is repeated
			return true
		}
	case control.GracefulShutdown:
		switch msg := in.Msg.(type) {
		case control.ShutdownAck:
			m.shutdownAck(msg)
			return true
		case nil, control.NotActive: // it is repeated
			return true
		}
	}
	return false
}

// watched takes the answer to a watch.
func (m *Machine) watched(from string, answer control.Message) bool {
	switch msg := answer.(type) {
	case control.TableChanged:
		m.tableChanged(from, msg.Delta)
		return true
	case control.NotActive:
		m.watcher.NotActive(m.now, from, msg.Active, msg.Term)
	case nil:
		m.watcher.Failed(m.now, from)
	default:
		return false
	}
	m.poll()
	return true
}

func (m *Machine) tableChanged(from string, d sharding.TableDelta) {
	if !m.watcher.Changed(m.now, from, d) {
		m.poll()
		return
	}
	m.current(d.Version.Term)
	for _, row := range m.table.Apply(d) {
		if h := m.shard(row.Shard); h != nil && row.Epoch > h.epoch {
			m.supersede(h)
		}
	}
	m.poll()
	m.register()
}

func (m *Machine) poll() {
	if to, v, ask := m.watcher.Poll(m.now); ask {
		m.emit(Send{To: to, Msg: control.WatchTable{Version: v}})
	}
}

// report answers a coordinator: the one that asked, else the one that is watched. If
// none is known, the one that comes will ask.
func (m *Machine) report(to string, msg control.Message) {
	if to == "" {
		to, _ = m.watcher.Active()
	}
	if to != "" {
		m.emit(Send{To: to, Msg: msg})
	}
}

// announcing is how far the announcement to the coordinator of a new term has come. A
// region says whose its journal is, so that one with the journal of another cluster is
// given no shards. What it has read may be old when the answer comes: a refusal is
// believed only if the journal is still whose it was.
type announcing struct {
	at     time.Time // last attempt
	number uint64    // of the newest ReadSign
	open   bool      // it is not answered
	// refusal is what the coordinator said of a region with the journal of refused, to
	// be believed if it is still that one's.
	refusal string
	refused control.JournalOwner
}

// register announces this region to the coordinator of a new term.
func (m *Machine) register() {
	if !m.unregistered() {
		return
	}
	pause := m.cfg.Resend
	if m.announcing.open {
		pause = max(pause, m.cfg.Watch.Timeout) // the answer may never come
	}
	if !m.announcing.at.IsZero() && m.now.Sub(m.announcing.at) < pause {
		return
	}
	m.announcing.at, m.announcing.refusal = m.now, ""
	m.readSign()
}

// unregistered reports whether there is a coordinator whose term does not know this
// region.
func (m *Machine) unregistered() bool {
	addr, term := m.watcher.Active()
	return addr != "" && term > m.registered && !m.failed && !m.left
}

func (m *Machine) readSign() {
	m.announcing.number++
	m.announcing.open = true
	m.emit(ReadSign{Number: m.announcing.number})
}

// signRead goes on with the announcement.
func (m *Machine) signRead(in SignRead) {
	a := &m.announcing
	if in.Number != a.number || !a.open {
		return
	}
	a.open = false
	var journal control.JournalOwner
	if in.OK && (in.Sign.Cluster != 0 || in.Sign.Term == 0) { // else an earlier version wrote it
		journal = control.JournalOwner{Known: true, Cluster: in.Sign.Cluster}
	}
	switch {
	case !m.unregistered():
	case a.refusal == "":
		to, _ := m.watcher.Active()
		reg := control.Register{Name: m.cfg.Name, Version: m.cfg.Version, Last: m.registered, Journal: journal}
		for i := range m.cfg.Turn.Types {
			reg.Types = append(reg.Types, m.cfg.Turn.Types[i].Desc)
		}
		m.emit(Send{To: to, Msg: reg})
	case journal == a.refused:
		m.fail(a.refusal)
	}
	a.refusal = "" // it was refused for what it said of the journal, maybe: it is repeated
}

func (m *Machine) registerAck(from string, asked control.Register, in control.RegisterAck) {
	if !m.current(in.Term) {
		return
	}
	switch {
	case in.Refusal == "":
		m.registered = max(m.registered, in.Term)
		m.announcing.at = time.Time{}
		m.health.told = time.Time{} // it may know nothing yet
		m.emit(Registered{With: from, Term: in.Term})
	case !asked.Journal.Known:
		m.fail(in.Refusal)
	case m.announcing.refusal == "" && !m.failed:
		m.announcing.refusal, m.announcing.refused = in.Refusal, asked.Journal
		m.readSign()
	}
}

// fail ends this region: a refusal is final.
func (m *Machine) fail(refusal string) {
	if !m.failed {
		m.failed = true
		m.emit(Fail{Reason: "the coordinator refused this region: " + refusal})
	}
}

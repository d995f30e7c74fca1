package router

import (
	"maps"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// countOwner adds delta to the number of rows that name a region as owner, and connects to
// the region when its first row appears, unless links are made only when they are needed.
func (m *Machine) countOwner(region sharding.NodeID, delta int) {
	if region.IsZero() {
		return
	}
	l := m.links[region]
	if l == nil {
		l = &link{region: region}
		m.links[region] = l
		m.candidatesChanged = true
		if m.cfg.LinkIdle == 0 {
			m.want(l)
		}
	}
	l.rows += delta
	m.release(l)
}

// release closes a link that no row names and that has no unanswered attempts.
func (m *Machine) release(l *link) {
	if l.rows == 0 && l.unanswered == 0 {
		delete(m.links, l.region)
		m.candidatesChanged = true
		m.unwant(l)
	}
}

// want has the driver keep a link up.
func (m *Machine) want(l *link) {
	if !l.wanted {
		l.wanted = true
		m.emit(Connect{Region: l.region})
	}
}

// unwant has the driver close a link.
func (m *Machine) unwant(l *link) {
	if l.wanted {
		l.wanted, l.up = false, false
		m.emit(Disconnect{Region: l.region})
	}
}

// need returns the link of the region that commands must be sent to now, and has it made if
// there is none.
func (m *Machine) need(region sharding.NodeID) *link {
	l := m.links[region]
	if l != nil {
		l.neededAt = m.now
		m.want(l)
	}
	return l
}

// closeIdle closes the links that no command has needed for LinkIdle. That is longer than any
// command lives, so none waits for such a link, and none is unanswered on it.
func (m *Machine) closeIdle() {
	if m.cfg.LinkIdle == 0 || m.now.Before(m.idleAt) {
		return
	}
	m.idleAt = m.now.Add(m.cfg.LinkIdle / 4)
	for _, l := range m.sortedLinks() {
		if l.unanswered == 0 && m.now.Sub(l.neededAt) >= m.cfg.LinkIdle {
			m.unwant(l)
		}
	}
}

func (m *Machine) linkUp(in LinkUp) {
	l := m.links[in.Region]
	if l == nil || !l.wanted || l.up && l.number == in.Link {
		return
	}
	if l.up {
		m.linkDown(LinkDown{Region: l.region, Link: l.number})
		if m.links[in.Region] != l {
			return
		}
	}
	l.up, l.number = true, in.Link
	for _, s := range m.sortedShards() {
		if row, ok := m.served(s); s.waiting > 0 && row.Owner == in.Region && (ok || row.Phase == sharding.HandingOff) {
			m.touch(s)
		}
	}
}

func (m *Machine) linkDown(in LinkDown) {
	if l := m.links[in.Region]; l != nil && l.up && l.number == in.Link {
		l.up = false
		m.doubtAll(l)
	}
}

func (m *Machine) sortedLinks() []*link {
	list := make([]*link, 0, len(m.links))
	for _, id := range slices.SortedFunc(maps.Keys(m.links), sharding.NodeID.Compare) {
		list = append(list, m.links[id])
	}
	return list
}

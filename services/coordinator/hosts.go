package coordinator

import (
	"time"
)

// A type stays declared when the last region that hosts it has gone. After [Config.UnhostedAfter] the gateways are
// notified, so that callers learn at once why their commands get no answer. Until then commands wait: the region may
// only be restarting.

// checkHosts looks for types that no region hosts any more, and for types that are hosted again.
func (m *Machine) checkHosts() {
	m.review.hostsDue = time.Time{}
	if !m.term.recovered {
		return // perhaps some regions of earlier terms have not registered yet
	}
	for _, t := range m.table.types {
		host := m.live.hostOf(t.desc.Type)
		switch {
		case host != nil:
			t.host, t.unhosted = host.label(), time.Time{}
		case t.unhosted.IsZero():
			t.unhosted = m.now
		}
		switch {
		case (host == nil) == t.desc.Unhosted:
		case m.ledger.pending(t.number):
			m.review.deferred = true
		case host != nil || m.now.Sub(t.unhosted) >= m.cfg.UnhostedAfter:
			desc := t.desc
			if desc.Unhosted, desc.LastHost = host == nil, ""; desc.Unhosted {
				desc.LastHost = t.host
			}
			m.commit(t.fact(desc))
		default:
			if due := t.unhosted.Add(m.cfg.UnhostedAfter); m.review.hostsDue.IsZero() || due.Before(m.review.hostsDue) {
				m.review.hostsDue = due
			}
		}
	}
}

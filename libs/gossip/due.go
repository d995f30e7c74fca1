package gossip

import "time"

// Due returns the time before which a [Tick] does nothing that could not wait for Due, unless another input comes first.
// It may have passed, and is never more than half of Config.LateTick after the last tick: otherwise a pause of this
// process would not show. While everybody is up and reachable and has seen that, rounds of gossip, announcements and
// forgetting wait for the next heartbeat.
func (m *Machine) Due() time.Time {
	if !m.settled() {
		return m.now
	}
	due := m.lastTick.Add(m.cfg.LateTick / 2)
	if m.nextHeartbeat.Before(due) {
		due = m.nextHeartbeat
	}
	at := due.Add(-m.extraPause())
	for i := range m.peers {
		if !m.peers[i].detector.Available(at) { // suspicion only grows, so that who is trusted then is trusted until then
			return m.now
		}
	}
	return due
}

// settled reports whether this node is in a cluster in which everybody is up, reachable, and has seen that.
func (m *Machine) settled() bool {
	if m.phase != member || m.unpublished || len(m.suspects) > 0 || m.hadUnreachable || m.watchingFormerReceivers ||
		len(m.disputes) > 0 || m.state.Seen.count() < len(m.state.Members) {
		return false
	}
	for _, mem := range m.state.Members {
		if mem.Status != Up {
			return false
		}
	}
	for i := range m.peers {
		if p := &m.peers[i]; p.gone || !p.askedUntil.IsZero() {
			return false
		}
	}
	return true
}

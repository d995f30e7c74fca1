package router

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/latency"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A gateway tells the coordinator how its clients fare: the polls of the table carry cards. Each
// command counts in one card. A card that gets lost is not repeated: the next one covers the later
// commands, which matter more by then.

// tally holds the contents of the next card.
type tally struct {
	since             time.Time
	commands, refused uint64
	latencies         latency.Histogram
}

// ended counts a command that was admitted at since and has ended. Its latency counts if its client
// has waited for a region: a refusal at once would make it look as if all were quick.
func (m *Machine) ended(since time.Time, reply *sharding.Reply) {
	if m.cfg.Management == "" {
		return
	}
	late := reply.Code == sharding.DeadlineExceeded
	m.tally.commands++
	switch {
	case reply.Outcome == sharding.Unknown, late && reply.Outcome == sharding.NotApplied:
		m.tally.refused++
	case reply.Outcome == sharding.NotApplied:
		if m.hint(reply.Code) > 0 {
			m.tally.refused++
		}
		return
	}
	m.tally.latencies.Add(m.now.Sub(since))
}

// abandoned counts a command whose client has gone. It has waited at least so long.
func (m *Machine) abandoned(since time.Time) {
	if m.cfg.Management != "" {
		m.tally.commands++
		m.tally.latencies.Add(m.now.Sub(since))
	}
}

// card returns the card that goes with a poll to an address, and begins the next one. There is
// none for a process that is not known to be the active coordinator: it would throw it away.
func (m *Machine) card(to string) (c control.Card) {
	if m.tally.since.IsZero() {
		m.tally.since = m.now
	}
	span := m.now.Sub(m.tally.since)
	if active, _ := m.watch.Active(); m.cfg.Management == "" || to != active || span < m.cfg.CardInterval {
		return c
	}
	c = control.Card{Management: m.cfg.Management, Peers: m.cfg.Peers, Span: span, Commands: m.tally.commands, Refused: m.tally.refused, Latencies: m.tally.latencies.Sketch()}
	m.tally = tally{since: m.now}
	return c
}

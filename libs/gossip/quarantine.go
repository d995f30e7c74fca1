package gossip

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Quarantine is an incarnation that this node refuses for good, although no
// tombstone says so: what it said about itself cannot be true.
type Quarantine struct {
	Node   sharding.NodeID
	Reason string
	Since  time.Time
}

// dispute is a joiner at the address of a member. Which of the two lives there
// shows in who answers heartbeats from seq on.
type dispute struct {
	joiner sharding.NodeID
	seq    uint64
}

// maxDisputes bounds the joiners under dispute; the oldest is forgotten first,
// and disputed anew when it asks again.
const maxDisputes = 64

// quarantine refuses an incarnation from now on.
func (m *Machine) quarantine(n sharding.NodeID, reason string) {
	if m.quarantined(n) {
		return
	}
	if len(m.outlaws) >= m.cfg.MaxQuarantined {
		m.outlaws = slices.Delete(m.outlaws, 0, 1+len(m.outlaws)-m.cfg.MaxQuarantined)
	}
	m.outlaws = append(m.outlaws, Quarantine{n, reason, m.now})
	m.emit(Quarantined{n, reason})
}

func (m *Machine) quarantined(n sharding.NodeID) bool {
	return !mutant.On("quarantine") && slices.ContainsFunc(m.outlaws, func(q Quarantine) bool { return q.Node == n })
}

// releaseOld forgets quarantines after their time. A message that is older
// than that is nowhere any more.
func (m *Machine) releaseOld() {
	m.outlaws = slices.DeleteFunc(m.outlaws, func(q Quarantine) bool { return m.now.Sub(q.Since) >= m.cfg.TombstoneTTL })
}

// sameUID finds the member at another address that has the uid of a joiner.
// Clocks count per uid, so there must be no two.
func (m *Machine) sameUID(joiner sharding.NodeID) (sharding.NodeID, bool) {
	i, _ := m.state.place(sharding.NodeID{UID: joiner.UID})
	for _, mem := range m.state.Members[i:] {
		if mem.Node.UID != joiner.UID {
			break
		}
		if mem.Node.Addr != joiner.Addr {
			return mem.Node, true
		}
	}
	return sharding.NodeID{}, false
}

// disputeOf remembers a joiner whose address belongs to a member that was asked
// for a sign of life with seq.
func (m *Machine) disputeOf(joiner sharding.NodeID, seq uint64) {
	if slices.ContainsFunc(m.disputes, func(d dispute) bool { return d.joiner == joiner }) {
		return
	}
	if len(m.disputes) >= maxDisputes {
		m.disputes = slices.Delete(m.disputes, 0, 1)
	}
	m.disputes = append(m.disputes, dispute{joiner, seq})
}

// settleDisputes takes a reply to a heartbeat. A member that answers one that
// was sent after somebody else asked to join from its address lives there, so
// the other is gone, or gives an address that is not its own.
func (m *Machine) settleDisputes(from sharding.NodeID, seq uint64) {
	m.disputes = slices.DeleteFunc(m.disputes, func(d dispute) bool {
		if d.joiner.Addr != from.Addr || seq < d.seq {
			return false
		}
		if d.joiner != from && m.peer(from) != nil {
			m.quarantine(d.joiner, "its address answers as "+from.String()+"; if it lives, give it an advertised address of its own")
		}
		return true
	})
}

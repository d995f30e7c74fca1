package gossip

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Ban is an incarnation that this node refuses permanently although it has no
// tombstone, because what it said about itself cannot be true.
type Ban struct {
	Node   sharding.NodeID
	Reason string
	Since  time.Time
}

// dispute is a joiner at the address of a member. The one that answers heartbeats
// from seq on is the one that lives there.
type dispute struct {
	joiner sharding.NodeID
	seq    uint64
}

// maxDisputes bounds the joiners under dispute; the oldest is forgotten first,
// and disputed again when it asks again.
const maxDisputes = 64

// ban refuses an incarnation from now on.
func (m *Machine) ban(n sharding.NodeID, reason string) {
	if m.isBanned(n) {
		return
	}
	if len(m.banned) >= m.cfg.MaxBanned {
		m.banned = slices.Delete(m.banned, 0, 1+len(m.banned)-m.cfg.MaxBanned)
	}
	m.banned = append(m.banned, Ban{n, reason, m.now})
	m.emit(Banned{n, reason})
}

func (m *Machine) isBanned(n sharding.NodeID) bool {
	return slices.ContainsFunc(m.banned, func(b Ban) bool { return b.Node == n }) //mutant:false quarantine
}

// expireBans forgets bans after a time that no message survives.
func (m *Machine) expireBans() {
	m.banned = slices.DeleteFunc(m.banned, func(b Ban) bool { return m.now.Sub(b.Since) >= m.cfg.TombstoneTTL })
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

// addDispute remembers a joiner whose address belongs to a member that was sent
// the heartbeat with seq.
func (m *Machine) addDispute(joiner sharding.NodeID, seq uint64) {
	if slices.ContainsFunc(m.disputes, func(d dispute) bool { return d.joiner == joiner }) {
		return
	}
	if len(m.disputes) >= maxDisputes {
		m.disputes = slices.Delete(m.disputes, 0, 1)
	}
	m.disputes = append(m.disputes, dispute{joiner, seq})
}

// settleDisputes handles a reply to a heartbeat that was sent after another
// incarnation asked to join from the same address. The sender lives there, so
// the joiner is gone, or advertises an address that is not its own.
func (m *Machine) settleDisputes(from sharding.NodeID, seq uint64) {
	m.disputes = slices.DeleteFunc(m.disputes, func(d dispute) bool {
		if d.joiner.Addr != from.Addr || seq < d.seq {
			return false
		}
		if d.joiner != from && m.peer(from) != nil {
			m.ban(d.joiner, "its address answers as "+from.String()+"; if it lives, give it an advertised address of its own")
		}
		return true
	})
}

// Package fact defines the facts of the coordinator: the durable changes of its state. Who stores and loads
// them need not know more of the coordinator.
package fact

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Fact is one durable change of the coordinator's state. The state changes only when a fact is applied: when it is made,
// and when it is folded.
type Fact interface{ fact() }

type (
	// Row records that the row of a shard is now Row. The sets have indexes into the forms of the type.
	Row struct {
		Row sharding.Row
		// Before has the forms in which earlier owners may have stored something. May has the forms in which
		// this owner may store something.
		Before, May sharding.FormSet
		// Successor is the region that is to get the shard when the owner has released it; zero: none was
		// chosen yet.
		Successor sharding.NodeID
		// Next is the reserved epoch; 0: there is none. When the owner has released the shard, the successor
		// may claim it at this epoch without another fact. NextMay has the forms in which the successor may
		// store something then.
		Next    sharding.Epoch
		NextMay sharding.FormSet
		// Previous names the region that has kept the states of the shard's entities for the new owner; zero:
		// there are none, or the new owner serves the shard already.
		Previous control.Previous
		// Cause is the reason why the shard is at its owner, or, while it is handed off, why it leaves.
		Cause sharding.Cause
	}
	// Type records that a type is declared with this descriptor. Its number of shards never changes. Forms has
	// all forms that regions have ever registered for storing; forms are only appended.
	Type struct {
		Desc  sharding.TypeDesc
		Forms []sharding.Form
		// By has, for each form, the application version that has registered it first.
		By []string
	}
	// Drain records that an operator drains the region. If Resume is set, the operator has ended the drain. A
	// drain is about one incarnation, and ends with it.
	Drain struct {
		Region sharding.NodeID
		Resume bool
		Note
	}
	// Cordon records that an operator wants no more shards at regions with this name. If Lifted is set, the
	// operator has ended this. After is the last epoch that was assigned before the cordon: shards with higher epochs
	// have come after it.
	Cordon struct {
		Region string
		Lifted bool
		After  sharding.Epoch
		Note
	}
	// Freeze records that an operator wants no shard to move unless it has to. The freeze ends at Until, or, if
	// that is zero, when an operator ends it. If Frozen is false, the freeze has ended.
	Freeze struct {
		Frozen bool
		Until  time.Time
		Note
	}
	// Pin records that the shard is pinned to the regions with this name; "": it is not pinned.
	Pin struct {
		Shard  sharding.ShardID
		Region string
		Note
	}
	// Move records that an operator has requested a move: the shard goes from its owner at this epoch to a
	// region. The Row before it begins the move.
	Move struct {
		Shard  sharding.ShardID
		Region string
		Epoch  sharding.Epoch
		Note
	}
	// Target records that this application version is the target version. Seen has versions that were seen before
	// it, the newest last.
	Target struct {
		Version string
		Seen    []string
	}
	// Loss records that the facts before it were lost, or some of them. It is not known which shards were
	// allocated. So all shards of journaled types are allocated without a command: their entities may have reminders
	// and sends, and no gateway asks for these.
	Loss struct{}
	// Unknown is a fact of a kind that only later releases know, as it was stored. It changes nothing.
	// Checkpoints repeat unknown facts in their order, for these releases.
	Unknown struct {
		Name     string
		Version  uint16
		Encoding sharding.Encoding
		Payload  string
	}
)

// Note names the sender of a request, its reason, and its time. The reason may be empty.
type Note struct {
	By, Reason string
	At         time.Time
}

// Size is about the length of a note as stored, never less.
func (n Note) Size() int { return 16 + len(n.By) + len(n.Reason) }

// Time returns a time as facts have it: in milliseconds.
func Time(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

func (Row) fact()        {}
func (Type) fact()       {}
func (Drain) fact()      {}
func (Target) fact()     {}
func (Loss) fact()       {}
func (Cordon) fact()     {}
func (Freeze) fact()     {}
func (Pin) fact()        {}
func (Move) fact()       {}
func (Quarantine) fact() {}
func (Unknown) fact()    {}

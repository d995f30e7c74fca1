package sharding

import "cmp"

// Phase is the stage of a shard within one epoch. Phases only go forward.
type Phase uint8

const (
	// Starting: allocated, not yet claimed. Gateways buffer.
	Starting Phase = iota + 1
	// Serving: claimed by the owner. Gateways route.
	Serving
	// HandingOff: the owner was asked to release the shard. Gateways buffer.
	HandingOff
)

// String is "starting", "serving" or "handing-off".
func (p Phase) String() string {
	switch p {
	case Starting:
		return "starting"
	case Serving:
		return "serving"
	case HandingOff:
		return "handing-off"
	}
	return "unallocated"
}

// Row is one line of the route table: who owns a shard, at which epoch, in which phase. A shard
// with the zero Row is not allocated.
type Row struct {
	Shard ShardID
	Owner NodeID
	Epoch Epoch
	Phase Phase
	// Reason is the reason why a starting row has no owner, if that is known to last.
	Reason RowReason
}

// RowReason is the reason why a row has no owner.
type RowReason uint8

const (
	// Unreadable: something may be stored of the shard that no region reads. Gateways
	// refuse its commands.
	Unreadable RowReason = iota + 1
)

// String is "unreadable", or empty without a reason.
func (r RowReason) String() string {
	if r == Unreadable {
		return "unreadable"
	}
	return ""
}

// Newer reports whether r supersedes o: rows are ordered by epoch, then phase,
// regardless of their source.
func (r Row) Newer(o Row) bool {
	return cmp.Or(cmp.Compare(r.Epoch, o.Epoch), cmp.Compare(r.Phase, o.Phase)) > 0
}

// TypeDesc describes an entity type to the cluster.
type TypeDesc struct {
	Type EntityType
	// Shards is the number of shards, fixed when the type is first declared.
	Shards uint32
	// Rule selects the part of an id that is hashed, fixed like Shards.
	Rule ShardRule
	// Volatile types keep their state in memory only: best effort.
	Volatile bool
	// Commands are the commands the type knows, sorted by name.
	Commands []CommandDesc
	// Writes and Reads are the forms that one region stores, and those that it reads,
	// each sorted. A volatile type has none. They are part of a registration, and empty
	// in the route table.
	Writes, Reads []Form
	// Unhosted: for a while, no registered region has hosted the type. LastHost names the
	// last one that did, and its version, for people; empty: not known. They are part of
	// the route table, and not set in a registration.
	Unhosted bool
	LastHost string
	// Quarantined are the suspects and the quarantined entities of the type, sorted by id. They are
	// part of the route table, and empty in a registration. The list is never changed in place.
	Quarantined []Quarantined
}

// Quarantined is an entity whose commands ended processes of regions.
type Quarantined struct {
	ID EntityID
	// Suspect is true if the entity is only suspected: it runs, but not concurrently with another
	// suspect. Otherwise, the entity is quarantined: it does not run.
	Suspect bool
	// Why states the reason, the start and the remedy, for people.
	Why string
}

// CommandDesc describes one command of a type.
type CommandDesc struct {
	Name     string
	ReadOnly bool
	// Stale lets a read-only command answer from memory without asking the
	// fence: a deposed owner may still answer it for a while.
	Stale bool
	// Input is the fingerprint of the input's fields, as the region that registers the
	// command reads them; 0: not known, or regions of several versions differ.
	Input uint64
}

// Command finds a command by name.
func (t *TypeDesc) Command(name string) (CommandDesc, bool) {
	for _, c := range t.Commands {
		if c.Name == name {
			return c, true
		}
	}
	return CommandDesc{}, false
}

// Version orders the states of the route table: each change increments N, and each
// coordinator term starts again.
type Version struct {
	Term Term
	N    uint64
}

// Compare orders versions by term, then number.
func (v Version) Compare(o Version) int {
	return cmp.Or(cmp.Compare(v.Term, o.Term), cmp.Compare(v.N, o.N))
}

// TableDelta brings a watcher from one version of the route table to another.
type TableDelta struct {
	Version Version
	// Full is true if Rows and Types are the whole table, not only changes.
	Full  bool
	Rows  []Row
	Types []TypeDesc
	// Generation is the generation of the journal that holds the table; 0: not known.
	Generation Generation
}

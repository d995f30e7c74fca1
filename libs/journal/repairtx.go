package journal

import (
	"context" // pure: every call of a store has an end
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// RepairsEntity has a record with an audit line for each repair: see [RepairLine].
var RepairsEntity = sharding.Entity{Type: "roost.repair", ID: "log"}

var repairsShard = sharding.ShardID{Type: RepairsEntity.Type}

// MaxReason is the longest reason of a repair, in bytes: operators read it in a table. The other texts of an audit line
// have the same limit.
const MaxReason = 1000

// RepairLine is an audit line as it is stored: in JSON, as the event "repair" of a record of
// [RepairsEntity].
type RepairLine struct {
	At      time.Time `json:"at"`
	Entity  string    `json:"entity"` // TYPE/ID
	Did     string    `json:"did"`
	By      string    `json:"by,omitempty"`
	Reason  string    `json:"reason"`
	Records int       `json:"records_set_aside"`
	First   uint64    `json:"first_record,omitempty"`
	Last    uint64    `json:"last_record,omitempty"`
	Wakes   int       `json:"wakeups_removed,omitempty"`
	Sends   int       `json:"sends_removed,omitempty"`
	// Snapshot is the number of the snapshot that was dropped.
	Snapshot uint64 `json:"snapshot_dropped,omitempty"`
	File     string `json:"file,omitempty"`
	SHA256   string `json:"sha256,omitempty"`
}

// RepairEvent is the name of the event that has a [RepairLine].
const RepairEvent = "repair"

func (p *RepairPlan) line(r *Repair, now time.Time) RepairLine {
	did := string(r.Do)
	switch r.Do {
	case GoBack:
		did = fmt.Sprintf("went back to record %d", r.Seq)
	case SkipRecord:
		did = fmt.Sprintf("skipped record %d", r.Seq)
	case LoseReply:
		did = fmt.Sprintf("gave up the reply of record %d", r.Seq)
	case DropRows:
		did = "dropped reminders and kept sends whose record cannot be read"
	case DropReminder:
		did = fmt.Sprintf("dropped reminder %s", r.Name)
	case RebuildState:
		did = "dropped the snapshot"
	case DeleteEntity:
		did = "deleted it"
	}
	l := RepairLine{
		At: now.UTC().Truncate(time.Millisecond), Entity: r.Entity.String(), Did: did, By: r.By, Reason: r.Reason, Records: len(p.SetAside),
		Wakes: len(p.Wakes), Sends: len(p.Sends), Snapshot: p.SnapshotSeq, File: r.File, SHA256: r.SHA256,
	}
	if n := len(p.SetAside); n > 0 {
		l.First, l.Last = p.SetAside[0].Seq, p.SetAside[n-1].Seq
	}
	return l
}

// DecodeRepairLine reads the audit line of a record of [RepairsEntity].
func DecodeRepairLine(r *sharding.Record) (RepairLine, error) {
	var l RepairLine
	if len(r.Events) != 1 || r.Events[0].Name != RepairEvent {
		return l, fmt.Errorf("%w: %s, record %d is not an audit line", ErrCorrupt, RepairsEntity, r.Seq)
	}
	if err := json.Unmarshal(r.Events[0].Payload, &l); err != nil {
		return l, fmt.Errorf("%w: %s, record %d: %w", ErrCorrupt, RepairsEntity, r.Seq, err)
	}
	return l, nil
}

// Check returns an error for a repair that is malformed. It wraps ErrRepair.
func (r *Repair) Check() error {
	switch {
	case r.Shard.Type != r.Entity.Type:
		return fmt.Errorf("%w: %s is not in shard %s", ErrRepair, r.Entity, r.Shard)
	case sharding.CheckEntityType("type", r.Entity.Type) != nil:
		return fmt.Errorf("%w: %s is Roost's own; roost journal repair facts repairs the coordinators' facts", ErrRepair, r.Entity)
	case strings.TrimSpace(r.Reason) == "":
		return fmt.Errorf("%w: the reason is missing", ErrRepair)
	case len(r.Reason) > MaxReason || len(r.By) > MaxReason || len(r.File) > MaxReason:
		return fmt.Errorf("%w: the reason, the name of the operator or the name of the file is longer than %d bytes", ErrRepair, MaxReason)
	}
	return nil
}

// RepairTx is a backend inside the transaction of a repair. No other process can change the data that it has read until
// the transaction ends.
type RepairTx interface {
	// Fence reads the fence of a shard; the zero Fence if it was never claimed.
	Fence(shard sharding.ShardID) (sharding.Fence, error)
	// Raw reads all that is stored of an entity.
	Raw(entity sharding.Entity) (RawEntity, error)
	// Last reads the number of the last record of an entity, 0 if there is none.
	Last(entity sharding.Entity) (uint64, error)
	// Decide decides operations and performs them, like [Backend].Commit.
	Decide(ops []Op) ([]Result, error)
	// Apply carries out the plan, except Deletes.
	Apply(entity sharding.Entity, p *RepairPlan) error
}

// RawReader is a handle that reads the stored data of an entity without decoding it, so that it also reads
// damaged data.
type RawReader interface {
	Raw(ctx context.Context, entity sharding.Entity) (RawEntity, error)
}

// Repairer is a backend that can repair an entity. It is for operators: services do not need it, and in PostgreSQL only
// the owner of the schema has the rights.
//
// Repair runs [DecideRepair] in one transaction. If it returns no error, the repair is on disk. It returns the same
// errors as Commit, and an error that wraps ErrRepair if the repair is refused.
type Repairer interface {
	RawReader
	Repair(ctx context.Context, r *Repair) (RepairPlan, error)
}

// DecideRepair claims the shard, writes the audit line and repairs the entity, by the same rules for every backend. If it
// returns an error, the transaction must be rolled back.
func DecideRepair(r *Repair, now time.Time, tx RepairTx) (RepairPlan, error) {
	if err := r.Check(); err != nil {
		return RepairPlan{}, err
	}
	f, err := tx.Fence(r.Shard)
	if err != nil {
		return RepairPlan{}, err
	}
	if f.Epoch == 0 {
		return RepairPlan{}, fmt.Errorf("%w: no region ever had shard %s, so %s is in another one: name it with --shard", ErrRepair, r.Shard, r.Entity)
	}
	own, err := tx.Fence(repairsShard)
	if err != nil {
		return RepairPlan{}, err
	}
	e, err := tx.Raw(r.Entity)
	if err != nil {
		return RepairPlan{}, err
	}
	p, err := PlanRepair(&e, r, now)
	if err != nil {
		return p, err
	}
	if p.Digest != r.Expect { //mutant:false repair-expect
		return p, fmt.Errorf("%w: %s %w since it was looked at; look again", ErrRepair, r.Entity, ErrChanged)
	}
	last, err := tx.Last(RepairsEntity)
	if err != nil {
		return p, err
	}
	ops, err := p.ops(r, now, f, own, last)
	if err != nil {
		return p, err
	}
	results, err := tx.Decide(ops)
	if err != nil {
		return p, err
	}
	for i := range results {
		if results[i].Verdict != sharding.Durable {
			return p, fmt.Errorf("%w: the %s was refused: %v", ErrRepair, ops[i].Kind(), results[i].Verdict)
		}
	}
	return p, tx.Apply(r.Entity, &p)
}

// ops returns the operations of a repair: they claim the shards, write the audit line, and delete the entity if the plan
// says so.
func (p *RepairPlan) ops(r *Repair, now time.Time, shard, own sharding.Fence, last uint64) ([]Op, error) {
	shard, err := RepairFence(shard)
	if err != nil {
		return nil, err
	}
	if own, err = RepairFence(own); err != nil {
		return nil, err
	}
	line, err := json.Marshal(p.line(r, now))
	if err != nil {
		return nil, err
	}
	ops := []Op{
		{Claim: &sharding.Claim{Shard: r.Shard, Epoch: shard.Epoch, Owner: shard.Owner}},
		{Claim: &sharding.Claim{Shard: repairsShard, Epoch: own.Epoch, Owner: own.Owner}},
		{Append: &sharding.Append{Shard: repairsShard, Epoch: own.Epoch, Entity: RepairsEntity, Records: []sharding.Record{
			{Seq: last + 1, Events: []sharding.Event{{Name: RepairEvent, Encoding: sharding.JSON, Payload: line}}},
		}}},
	}
	// Invariant: a repair of an entity takes the shard from its owner, has an audit line, sets aside only what the
	// operator has seen, and makes nothing worse. No number of a record is used twice, and no command runs again.
	// Guarded by: `journal.DecideRepair`, `journal.PlanRepair`
	// ([docs/running/repair.md](../running/repair.md#damaged-data-of-an-entity)).
	// Mutants: repair-fence, repair-audit, repair-expect, repair-worse, repair-life, repair-whole, repair-rows,
	// repair-reply, repair-forget
	//mutant:do repair-fence ops = ops[1:]
	//mutant:do repair-audit ops = ops[:len(ops)-1]
	if p.Deletes > 0 {
		ops = append(ops, Op{Append: &sharding.Append{Shard: r.Shard, Epoch: shard.Epoch, Entity: r.Entity, Records: []sharding.Record{{Seq: p.Deletes, Delete: true}}}})
	}
	return ops, nil
}

// RepairFence returns the fence at which a repair claims a shard. It has the next epoch, unless no region has had the
// shard since an earlier repair: then the epoch stays. So several repairs raise the fence by one epoch only, and a
// coordinator that has not noticed the first of them can still give out an epoch above the last.
func RepairFence(f sharding.Fence) (sharding.Fence, error) {
	if f.Owner == RepairOwner && f.Epoch != 0 {
		return f, nil
	}
	if f.Epoch.Counter() == math.MaxUint32 {
		return f, fmt.Errorf("%w: the term %d has no epochs left: restart the active coordinator, and try again", ErrRepair, f.Epoch.Term())
	}
	return sharding.Fence{Epoch: f.Epoch + 1, Owner: RepairOwner}, nil
}

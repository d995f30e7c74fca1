package postgres

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// The numbers of schema.sql.
const (
	kindClaim, kindFence, kindAppend, kindSnapshot, kindDrop, kindDeliver, kindPurge = 1, 2, 3, 4, 5, 6, 7
	howRead, howWrite, howClaim                                                      = 0, 1, 2
	// followsNothing is a first sequence number that never comes next.
	followsNothing = -1
	// noKind is a kind of wake-ups that none has.
	noKind = 0
)

// verdicts maps the numbers that roost.commit_batch returns to verdicts.
var verdicts = [...]sharding.Verdict{1: sharding.Durable, 2: sharding.RefusedEpoch, 3: sharding.RefusedSeq, 4: sharding.RefusedCommand, 5: sharding.RefusedWake}

// firedArgs holds the reports of fired wake-ups, by column. The types below do the same for
// other changes.
type firedArgs struct {
	op, entity, kind []int32
	name             [][]byte
	seq, number      []int64
}

type wakeArgs struct {
	op, entity, does, kind   []int32
	name                     [][]byte
	due, number, period, seq []int64
}

type deliveredArgs struct {
	op, entity, count, send, as []int32
	seq                         []int64
	once                        []bool
}

// batch holds the arguments of roost.commit_batch. None may be nil, which would
// be null.
type batch struct {
	shards   []sharding.ShardID // sorted; index + 1 is the shard's number
	entities []sharding.Entity

	sType  []string
	sShard []int64
	sHow   []int32
	eType  []string
	eName  [][]byte
	eHash  []int64

	oKind, oShard, oEntity, oCount, oKeys []int32
	oEpoch, oSeq, oLife, oCut             []int64
	oRepeats                              []bool
	oTime                                 []*int64
	oBody                                 [][]byte

	rOp, rSends []int32
	records     recordArgs

	fired     firedArgs
	wakes     wakeArgs
	delivered deliveredArgs
}

func newBatch(ops []journal.Op, wall time.Time, cfg *journal.Config) *batch {
	b := &batch{}
	b.numberAll(ops)
	n := len(ops)
	b.oKind, b.oShard, b.oEntity, b.oCount, b.oKeys = make([]int32, n), make([]int32, n), make([]int32, n), make([]int32, n), make([]int32, n)
	b.oEpoch, b.oSeq, b.oLife, b.oCut, b.oRepeats = make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]bool, n)
	b.oTime, b.oBody = make([]*int64, n), make([][]byte, n)
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	b.rOp, b.rSends, b.records = make([]int32, 0, n), make([]int32, 0, n), newRecordArgs(ops, all)
	for i := range ops {
		switch op := &ops[i]; {
		case op.Claim != nil:
			b.op(i, kindClaim, op.Claim.Shard, op.Claim.Epoch)
			b.oSeq[i] = int64(op.Claim.Owner)
		case op.Fence != nil:
			b.op(i, kindFence, op.Fence.Shard, op.Fence.Epoch)
		case op.Append != nil:
			kind := int32(kindAppend)
			if op.Append.OnlyDelivers() { //mutant:false deliver-apart
				kind = kindDeliver
			}
			b.op(i, kind, op.Append.Shard, op.Append.Epoch)
			b.append(i, op.Append, wall, cfg)
		case op.Snapshot != nil:
			s := op.Snapshot
			b.op(i, kindSnapshot, s.Shard, s.Epoch)
			b.oEntity[i] = number(b.entities, s.Entity, sharding.Entity.Compare)
			b.oSeq[i], b.oCut[i] = int64(s.Snapshot.Seq), int64(s.Cut)
			b.oBody[i] = journal.AppendSnapshot(nil, s)
		case op.Drop != nil:
			b.op(i, kindDrop, op.Drop.Shard, 0)
			b.oEntity[i] = number(b.entities, op.Drop.Entity, sharding.Entity.Compare)
			b.oSeq[i] = int64(op.Drop.Seq)
		case op.Purge != nil:
			b.op(i, kindPurge, op.Purge.Shard, op.Purge.Epoch)
			b.oEntity[i] = number(b.entities, op.Purge.Entity, sharding.Entity.Compare)
			b.oSeq[i] = int64(op.Purge.Life)
		}
	}
	return b
}

// numberAll numbers the shards and entities of a batch, and records how the batch uses each
// shard.
func (b *batch) numberAll(ops []journal.Op) {
	how := make(map[sharding.ShardID]int32, len(ops))
	touch := func(s sharding.ShardID, h int32) { how[s] = max(how[s], h) }
	for i := range ops {
		switch op := &ops[i]; {
		case op.Claim != nil:
			touch(op.Claim.Shard, howClaim)
		case op.Fence != nil:
			touch(op.Fence.Shard, howRead)
		case op.Append != nil:
			touch(op.Append.Shard, howWrite)
			b.entities = append(b.entities, op.Append.Entity)
		case op.Snapshot != nil:
			touch(op.Snapshot.Shard, howWrite)
			b.entities = append(b.entities, op.Snapshot.Entity)
		case op.Drop != nil:
			touch(op.Drop.Shard, howRead)
			b.entities = append(b.entities, op.Drop.Entity)
		case op.Purge != nil:
			touch(op.Purge.Shard, howClaim) // it may change the fence's row
			b.entities = append(b.entities, op.Purge.Entity)
		}
	}
	for s := range how {
		b.shards = append(b.shards, s)
	}
	slices.SortFunc(b.shards, sharding.ShardID.Compare)
	b.sType, b.sShard, b.sHow = make([]string, len(b.shards)), make([]int64, len(b.shards)), make([]int32, len(b.shards))
	for i, s := range b.shards {
		b.sType[i], b.sShard[i], b.sHow[i] = string(s.Type), int64(s.Index), how[s]
	}
	slices.SortFunc(b.entities, sharding.Entity.Compare)
	b.entities = slices.Compact(b.entities)
	b.eType, b.eName, b.eHash = make([]string, len(b.entities)), make([][]byte, len(b.entities)), make([]int64, len(b.entities))
	for i, e := range b.entities {
		b.eType[i], b.eName[i], b.eHash[i] = string(e.Type), []byte(e.ID), int64(e.ID.Hash())
	}
}

func (b *batch) op(i int, kind int32, s sharding.ShardID, e sharding.Epoch) {
	b.oKind[i], b.oShard[i], b.oEpoch[i] = kind, number(b.shards, s, sharding.ShardID.Compare), int64(e)
}

func (b *batch) append(i int, a *sharding.Append, wall time.Time, cfg *journal.Config) {
	entity := number(b.entities, a.Entity, sharding.Entity.Compare)
	b.oEntity[i], b.oCount[i], b.oSeq[i] = entity, int32(len(a.Records)), followsNothing
	switch {
	case len(a.Records) > 0:
		b.oSeq[i] = int64(a.Records[0].Seq)
	case len(a.Fired)+len(a.Delivered) > 0:
		b.oSeq[i] = 0
	}
	b.addWakes(int32(i)+1, entity, a, cfg.LookAt(wall))
	var seen map[sharding.CommandID]struct{}
	if len(a.Records) > 1 {
		seen = make(map[sharding.CommandID]struct{}, len(a.Records))
	}
	for n := range a.Records {
		r := &a.Records[n]
		if r.Seq != a.Records[0].Seq+uint64(n) {
			b.oSeq[i] = followsNothing
		}
		if r.Delete {
			b.oLife[i] = int64(r.Seq)
		}
		if r.Command != "" && seen != nil {
			_, again := seen[r.Command]
			b.oRepeats[i] = b.oRepeats[i] || again
			seen[r.Command] = struct{}{}
		}
		b.rOp = append(b.rOp, int32(i)+1)
		sends := 0 // no row
		if journal.NewSends(r) != nil {
			sends = len(r.Sends)
		}
		b.rSends = append(b.rSends, int32(sends))
	}
	b.oKeys[i], b.oTime[i] = b.records.add(a, entity, wall, cfg)
}

// args are the arguments but the format and the generation.
func (b *batch) args(now journal.Moment, cfg *journal.Config) []any {
	r := &b.records
	return []any{
		b.sType, b.sShard, b.sHow, b.eType, b.eName, b.eHash,
		b.oKind, b.oShard, b.oEntity, b.oEpoch, b.oSeq, b.oCount, b.oKeys, b.oRepeats, b.oTime, b.oLife, b.oCut, b.oBody,
		b.rOp, r.entity, r.seq, r.command, r.time, r.forever, r.body, r.reply, b.rSends,
		given(b.fired.op), given(b.fired.entity), given(b.fired.kind), given(b.fired.name), given(b.fired.seq), given(b.fired.number),
		given(b.wakes.op), given(b.wakes.entity), given(b.wakes.does), given(b.wakes.kind), given(b.wakes.name),
		given(b.wakes.due), given(b.wakes.number), given(b.wakes.period), given(b.wakes.seq),
		given(b.delivered.op), given(b.delivered.entity), given(b.delivered.seq), given(b.delivered.count), given(b.delivered.send),
		given(b.delivered.as), given(b.delivered.once),
		int64(now.Writer), now.Elapsed.Milliseconds(),
		now.Wall.Add(-cfg.DedupeAge).UnixMilli(), cfg.DedupeAge.Milliseconds(), int64(cfg.DedupeCount), int32(journal.MaxPurge),
	}
}

// given is a slice that is not nil.
func given[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// addWakes adds what an append says about wake-ups and sends of earlier records.
func (b *batch) addWakes(op, entity int32, a *sharding.Append, lookAt time.Time) {
	for n, f := range a.Fired {
		kind := int32(f.Kind)
		if slices.ContainsFunc(a.Fired[:n], func(o sharding.Fired) bool { return o.Kind == f.Kind && o.Name == f.Name }) {
			kind = noKind // it cannot fire twice
		}
		x := &b.fired
		x.op, x.entity, x.kind = append(x.op, op), append(x.entity, entity), append(x.kind, kind)
		x.name, x.seq, x.number = append(x.name, []byte(f.Name)), append(x.seq, int64(f.Seq)), append(x.number, int64(f.Number))
	}
	for _, c := range journal.WakeChanges(a, lookAt) {
		x := &b.wakes
		x.op, x.entity, x.does = append(x.op, op), append(x.entity, entity), append(x.does, int32(c.Does))
		x.kind, x.name = append(x.kind, int32(c.Kind)), append(x.name, []byte(c.Name))
		x.due, x.number = append(x.due, c.Due), append(x.number, int64(c.Number))
		x.period, x.seq = append(x.period, c.Period), append(x.seq, int64(c.Seq))
	}
	for _, d := range a.Delivered {
		x := &b.delivered
		x.op, x.entity, x.seq = append(x.op, op), append(x.entity, entity), append(x.seq, int64(d.Seq))
		x.count, x.as, x.once = append(x.count, int32(len(d.Sends))), append(x.as, int32(d.As)), append(x.once, d.Once)
		for _, n := range d.Sends {
			x.send = append(x.send, int32(n))
		}
	}
}

// number returns the position of v in sorted, from 1, as SQL counts.
func number[T any](sorted []T, v T, compare func(a, b T) int) int32 {
	i, _ := slices.BinarySearchFunc(sorted, v, compare)
	return int32(i) + 1
}

package postgres

import (
	"math"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// expireEvery is the number of records after which commit_batch expires keys of an entity.
const expireEvery = 1024

// appends holds the arguments of roost.append_records: the appends of a batch which it takes. None may be nil, which
// would be null.
type appends struct {
	ops  []int // their places in the batch: those to entities that have records already, sorted by entity, and then first records, too
	rest []int // the places of the ops that commit_batch decides, in order

	shards []sharding.ShardID // the shards of sType and sShard
	sType  []string
	sShard []int64
	sEpoch []int64

	eType  []string
	eName  [][]byte
	eLast  []int64
	eCount []int32
	eKeys  []int32
	eTime  []*int64

	records recordArgs

	nShard []int32
	nName  [][]byte
	firsts recordArgs
}

// newAppends chooses from a batch what append_records takes. It is nil if that is nothing.
func newAppends(ops []journal.Op, wall time.Time, cfg *journal.Config) *appends {
	var about, writes []int // places of ops on an entity, and of ops that write under a fence
	for i := range ops {
		switch op := &ops[i]; {
		case op.Claim != nil, op.Purge != nil:
			return nil // they change fences, and the operations after them depend on that
		case op.Append != nil, op.Snapshot != nil:
			about, writes = append(about, i), append(writes, i)
		case op.Drop != nil:
			about = append(about, i)
		}
	}
	slices.SortFunc(about, func(i, k int) int { return entityOf(&ops[i]).Compare(entityOf(&ops[k])) })
	x := &appends{}
	var firsts []int
	for n, i := range about {
		alone := (n == 0 || entityOf(&ops[about[n-1]]) != entityOf(&ops[i])) && (n == len(about)-1 || entityOf(&ops[about[n+1]]) != entityOf(&ops[i]))
		switch {
		case !alone || ops[i].Append == nil || !onlyRecords(ops[i].Append):
		case ops[i].Append.Records[0].Seq > 1:
			x.ops = append(x.ops, i)
		case len(ops[i].Append.Records) == 1:
			firsts = append(firsts, i)
		}
	}
	if len(x.ops)+len(firsts) == 0 || !x.fences(ops, writes) {
		return nil
	}
	x.move(ops, wall, cfg)
	x.begin(ops, firsts, wall, cfg)
	x.ops = append(x.ops, firsts...)
	taken := make([]bool, len(ops))
	for _, i := range x.ops {
		taken[i] = true
	}
	for i := range ops {
		if !taken[i] {
			x.rest = append(x.rest, i)
		}
	}
	return x
}

// move makes the arguments about entities that have records already.
func (x *appends) move(ops []journal.Op, wall time.Time, cfg *journal.Config) {
	n := len(x.ops)
	x.eType, x.eName, x.eLast = make([]string, n), make([][]byte, n), make([]int64, n)
	x.eCount, x.eKeys, x.eTime = make([]int32, n), make([]int32, n), make([]*int64, n)
	x.records = newRecordArgs(ops, x.ops)
	for n, i := range x.ops {
		a := ops[i].Append
		x.eType[n], x.eName[n] = string(a.Entity.Type), []byte(a.Entity.ID)
		x.eLast[n], x.eCount[n] = int64(a.Records[0].Seq-1), int32(len(a.Records))
		x.eKeys[n], x.eTime[n] = x.records.add(a, int32(n)+1, wall, cfg)
	}
}

// begin makes the arguments about entities whose first records these are.
func (x *appends) begin(ops []journal.Op, firsts []int, wall time.Time, cfg *journal.Config) {
	x.nShard, x.nName = make([]int32, len(firsts)), make([][]byte, len(firsts))
	x.firsts = newRecordArgs(ops, firsts)
	for n, i := range firsts {
		a := ops[i].Append
		x.nShard[n], x.nName[n] = number(x.shards, a.Shard, sharding.ShardID.Compare), []byte(a.Entity.ID)
		x.firsts.add(a, 0, wall, cfg)
	}
}

// fences lists the shards that a batch writes to, by append_records and by commit_batch: all are
// locked in one order. It reports whether the batch writes to each shard at one epoch.
func (x *appends) fences(ops []journal.Op, writes []int) bool {
	slices.SortFunc(writes, func(i, k int) int {
		a, _ := written(&ops[i])
		b, _ := written(&ops[k])
		return a.Compare(b)
	})
	x.sType, x.sShard, x.sEpoch = make([]string, 0, len(writes)), make([]int64, 0, len(writes)), make([]int64, 0, len(writes))
	for _, i := range writes {
		shard, epoch := written(&ops[i])
		if n := len(x.shards); n > 0 && shard == x.shards[n-1] {
			if x.sEpoch[len(x.sEpoch)-1] != int64(epoch) {
				return false
			}
			continue
		}
		x.shards = append(x.shards, shard)
		x.sType, x.sShard, x.sEpoch = append(x.sType, string(shard.Type)), append(x.sShard, int64(shard.Index)), append(x.sEpoch, int64(epoch))
	}
	return true
}

// written returns the shard that an append or a snapshot writes to, and the epoch.
func written(op *journal.Op) (sharding.ShardID, sharding.Epoch) {
	if op.Append != nil {
		return op.Append.Shard, op.Append.Epoch
	}
	return op.Snapshot.Shard, op.Snapshot.Epoch
}

// entityOf is the entity of an append, a snapshot, or the drop of one.
func entityOf(op *journal.Op) sharding.Entity {
	switch {
	case op.Append != nil:
		return op.Append.Entity
	case op.Snapshot != nil:
		return op.Snapshot.Entity
	}
	return op.Drop.Entity
}

// onlyRecords reports whether an append is one that append_records takes, provided that its batch has
// nothing else about its entity, and that it has one record if that is the first one of the entity: it adds records without
// wake-ups, sends and deletes, and none after which keys are expired.
func onlyRecords(a *sharding.Append) bool {
	if len(a.Records) == 0 || len(a.Fired)+len(a.Delivered) > 0 || a.Shard.Type != a.Entity.Type {
		return false
	}
	first := a.Records[0].Seq
	last := first + uint64(len(a.Records)) - 1
	if first == 0 || last > math.MaxInt64 || (first-1)/expireEvery != last/expireEvery {
		return false
	}
	for i := range a.Records {
		r := &a.Records[i]
		if r.Seq != first+uint64(i) || r.Delete || len(r.Wakes)+len(r.Sends) > 0 {
			return false
		}
	}
	return true
}

// args are the arguments but the format and the generation.
func (x *appends) args(now journal.Moment) []any {
	r, f := &x.records, &x.firsts
	return []any{
		x.sType, x.sShard, x.sEpoch, x.eType, x.eName, x.eLast, x.eCount, x.eKeys, x.eTime,
		r.entity, r.seq, r.command, r.time, r.forever, r.body, r.reply,
		x.nShard, x.nName, f.command, f.time, f.forever, f.body, f.reply, int64(now.Writer), now.Elapsed.Milliseconds(),
	}
}

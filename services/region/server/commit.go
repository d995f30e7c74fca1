package server

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// Everything durable goes through the group commit of the process's journal;
// its results come back as inputs.

func (s *shardLoop) append(o turn.Append) {
	inc, seq := o.Incarnation, uint64(0)
	if len(o.Append.Records) > 0 {
		seq = o.Append.Records[0].Seq
	}
	s.journal.Submit(journal.Op{Append: &o.Append}, func(r journal.Result) {
		s.put(item{in: turn.Appended{
			Incarnation: inc, Seq: seq, Verdict: r.Verdict, Fence: r.Fence, Reason: reason(r), At: r.At,
		}})
	})
}

func (s *shardLoop) readFence(o turn.ReadFence) {
	s.journal.Submit(journal.Op{Fence: &sharding.ReadFence{Shard: o.Shard, Epoch: o.Epoch}}, func(r journal.Result) {
		s.put(item{in: turn.FenceRead{
			Shard: o.Shard, Epoch: o.Epoch, Number: o.Number, Verdict: r.Verdict, Fence: r.Fence, Reason: reason(r),
		}})
	})
}

func (s *shardLoop) claim(o region.Claim) {
	s.journal.Submit(journal.Op{Claim: &sharding.Claim{Shard: o.Shard, Epoch: o.Epoch, Owner: s.self.UID}}, func(r journal.Result) {
		s.put(item{in: region.Claimed{Shard: o.Shard, Epoch: o.Epoch, Verdict: r.Verdict, Fence: r.Fence}})
	})
}

// reason returns the journal's reason for not doing something, in words for a client.
func reason(r journal.Result) string {
	switch {
	case r.Err == nil:
		return ""
	case r.Verdict == sharding.RefusedDamaged:
		return journal.ErrCorrupt.Error() // where, and what to do, is in the log
	}
	return r.Err.Error()
}

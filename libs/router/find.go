package router

import (
	"maps"
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A shard may be served before a coordinator can say so: its handoff ends without one, if the
// coordinator has gone meanwhile. So while commands wait for a shard, the router also asks the
// region that the row names as the owner. A region that has released a shard hears from the next
// owner. There is one question at a time to each region, for all shards that it may know of.

// inquiry is the state of the questions to a region.
type inquiry struct {
	shards []sharding.ShardID // of the next question
	asked  bool               // a question is not answered
}

// inquire adds a shard to the next question to the owner that its row names.
func (m *Machine) inquire(row sharding.Row) {
	if row.Owner.IsZero() { //mutant:true owner-asked
		return
	}
	q := m.inquiries[row.Owner.Addr]
	if q == nil {
		q = &inquiry{}
		m.inquiries[row.Owner.Addr] = q
	}
	if len(q.shards) < control.MaxFindShards { // one that finds no room is added again
		q.shards = append(q.shards, row.Shard)
	}
}

// sendInquiries sends the next question to each region that has answered the last one.
func (m *Machine) sendInquiries() {
	if len(m.inquiries) == 0 {
		return
	}
	for _, addr := range slices.Sorted(maps.Keys(m.inquiries)) {
		q := m.inquiries[addr]
		if q.asked {
			continue
		}
		shards := slices.DeleteFunc(q.shards, func(id sharding.ShardID) bool {
			s := m.shards[id]
			if s == nil || s.waiting == 0 {
				return true
			}
			_, served := m.served(s)
			return served
		})
		if len(shards) == 0 {
			delete(m.inquiries, addr)
			continue
		}
		m.emit(Send{To: addr, Msg: control.FindShards{Shards: slices.Compact(shards)}})
		q.shards, q.asked = nil, true
	}
}

// found takes the answer of a region; nil: there is none.
func (m *Machine) found(from string, rows []sharding.Row) {
	if q := m.inquiries[from]; q != nil {
		q.asked = false // the rest is sent at the end of the step
	}
	for _, row := range rows {
		m.merge(row)
	}
}

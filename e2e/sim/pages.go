package sim

import (
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// shorten leaves the last rows of a page out, as a journal does that has read enough bytes of records:
// of the last shards the page may have none.
func shorten[R any](w *World, p *journal.Page[R], shard func(*R) sharding.ShardID) {
	d := w.dice("room of pages")
	if w.weather.Harsh == (harshWeather{}) || len(p.Entries) < 2 || !d.chance(0.3) {
		return
	}
	n := 1 + d.IntN(len(p.Entries)-1)
	for i := range p.Entries[n:] {
		if s := shard(&p.Entries[n+i]); !slices.Contains(p.More, s) {
			p.More = append(p.More, s)
		}
	}
	p.Entries = p.Entries[:n]
	if last := p.More[len(p.More)-1]; shard(&p.Entries[n-1]) != last {
		w.mark("journal: a page has no room for a shard")
	}
}

func shardOfWake(r *journal.WakeEntry) sharding.ShardID { return r.Shard }

// page is a part of the store that a flipped bit has damaged, and what needs it:
// loads of entities, writes of entities, or the fences of shards. What needs it is
// refused as damaged, as the journal does after it has looked for the guilty
// operation of a batch.
type page struct {
	entities     map[sharding.Entity]bool
	fences       map[sharding.ShardID]bool
	loads, write bool
	forever      bool // the calm does not repair it
}

// flipPage damages a page.
func (w *World) flipPage() {
	d := w.dice("pages")
	p := &page{entities: map[sharding.Entity]bool{}, fences: map[sharding.ShardID]bool{}}
	switch kind := d.IntN(8); {
	case kind == 0:
		p.fences[factShard] = true
	case kind == 1:
		p.entities[factEntity], p.loads, p.write = true, true, true
	case kind < 4: // epochs of shards
		t := &types[d.IntN(2)]
		for range 1 + d.IntN(2) {
			p.fences[sharding.ShardID{Type: t.Type, Index: uint32(d.IntN(int(t.Shards)))}] = true
		}
	default:
		for range 1 + d.IntN(3) {
			if e := w.entities[d.IntN(len(w.entities))]; !w.volatile(e) {
				p.entities[e] = true
			}
		}
		p.loads, p.write = kind != 4, kind != 5
		p.forever = d.chance(0.5)
	}
	w.trace(nil, "PAGE", fmt.Sprintf("%+v", *p))
	w.journal.pages = append(w.journal.pages, p)
	for e := range p.entities { // order-free: fills a map
		w.journal.touched[e] = true
	}
	for s := range p.fences { // order-free: fills a map
		w.journal.unfenced[s] = true
	}
	if !p.forever {
		w.heals = append(w.heals, func() { w.journal.restore(p) })
		w.after(d.between(100*ms, w.weather.Harsh.FlipFor), func() { w.journal.restore(p) })
	}
}

// restore repairs a page.
func (s *store) restore(p *page) {
	p.entities, p.fences = nil, nil
}

func (s *store) fenceDamaged(id sharding.ShardID) bool {
	for _, p := range s.pages {
		if p.fences[id] {
			return true
		}
	}
	return false
}

// loadDamaged reports whether loads of the entity meet damage, writeDamaged
// whether its writes do.
func (s *store) loadDamaged(e sharding.Entity) bool {
	for _, p := range s.pages {
		if p.loads && p.entities[e] {
			return true
		}
	}
	return false
}

func (s *store) writeDamaged(e sharding.Entity) bool {
	for _, p := range s.pages {
		if p.write && p.entities[e] {
			return true
		}
	}
	return false
}

// intact reports whether nothing in the way of an entity is damaged, and it is not quarantined.
func (w *World) intact(e sharding.Entity) bool {
	s := w.journal
	return !s.loadDamaged(e) && !s.writeDamaged(e) && !s.fenceDamaged(w.shardOf(e)) && !w.quarantined(e)
}

// damaged reports whether an operation meets damage.
func (s *store) damaged(op *journal.Op) bool {
	switch {
	case op.Claim != nil:
		return s.fenceDamaged(op.Claim.Shard)
	case op.Fence != nil:
		return s.fenceDamaged(op.Fence.Shard)
	case op.Append != nil:
		return s.fenceDamaged(op.Append.Shard) || s.writeDamaged(op.Append.Entity)
	case op.Purge != nil:
		return s.fenceDamaged(op.Purge.Shard) || s.writeDamaged(op.Purge.Entity)
	default:
		return s.fenceDamaged(op.Snapshot.Shard) || s.writeDamaged(op.Snapshot.Entity)
	}
}

// decide commits what meets no damage, and refuses the rest.
func (s *store) decide(m journal.Moment, ops []journal.Op) []journal.Result {
	results := make([]journal.Result, len(ops))
	var sound []journal.Op
	var where []int
	for i := range ops {
		if s.damaged(&ops[i]) {
			results[i] = journal.Result{Verdict: sharding.RefusedDamaged, Err: journal.ErrCorrupt}
			continue
		}
		sound, where = append(sound, ops[i]), append(where, i)
	}
	for n, r := range s.ledger.Apply(m, sound) {
		results[where[n]] = r
	}
	return results
}

// load reads an entity, unless its stored data is damaged.
func (s *store) load(req journal.LoadRequest) (journal.Loaded, error) {
	if s.loadDamaged(req.Entity) {
		s.w.mark("journal: load meets damage")
		return journal.Loaded{}, fmt.Errorf("%w: %s", journal.ErrCorrupt, req.Entity)
	}
	return s.ledger.Load(req)
}

// maxEpoch is the highest epoch, 0 if not all can be read: then the claim of the
// fact stream decides.
func (s *store) maxEpoch() sharding.Epoch {
	for _, p := range s.pages {
		if len(p.fences) > 0 {
			s.w.mark("coordinator: not all epochs can be read")
			return 0
		}
	}
	return s.ledger.MaxEpoch()
}

// answersDamage reports whether a command of the last round meets damage and its
// answer says so. A read meets damaged writes if an append must be settled before it.
// The outcome is unknown if the clocks have been set such that its key
// was taken for an expired one before.
func (w *World) answersDamage(o *op, r *sharding.Reply) bool {
	j := w.journal
	meets := j.loadDamaged(o.entity) || j.writeDamaged(o.entity) && (o.cmd == cmdAdd || j.doubtful[o.entity])
	return meets && r.Outcome != sharding.Executed && (r.Code == sharding.DataLoss || r.Code == sharding.KeyExpired && w.weather.Harsh.Expires)
}

// contained checks an answer that reports data loss: damage of an entity, or of its
// shard's fence, affects no others.
func (w *World) contained(o *op, reply *sharding.Reply) {
	if reply.Code != sharding.DataLoss {
		return
	}
	w.mark("client: data loss")
	if !w.journal.touched[o.entity] && !w.journal.unfenced[w.shardOf(o.entity)] {
		w.violate("damage is contained", "%v is answered with %s, and nothing of it is damaged: %s", o, reply.Code, reply.Message)
	}
}

func (w *World) shardOf(e sharding.Entity) sharding.ShardID {
	for i := range types {
		if types[i].Type == e.Type {
			return types[i].ShardOf(e.ID)
		}
	}
	return sharding.ShardID{}
}

package router

import (
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// fakeRegion executes commands one by one per shard, against the journal of
// the world, as long as it is up.
type fakeRegion struct {
	w           *world
	old         bool // its version does not have the command New
	id          sharding.NodeID
	up          bool
	pausedUntil time.Duration
	inbox       []func()
	pumping     bool // the inbox is being processed, or will be after a pause
	shards      map[sharding.ShardID]*held
}

// held is a shard that a region serves.
type held struct {
	epoch    sharding.Epoch
	stopping bool
	queue    []job
	running  bool
}

type job struct {
	link *fakeLink
	send SendCommand
}

// fakeLink delivers in order until it breaks, which its two ends notice at different times.
type fakeLink struct {
	w                      *world
	number                 uint64
	region                 *fakeRegion
	routerOpen, regionOpen bool
	up, down               time.Duration // when the newest command and answer arrive
}

func (w *world) dial(to sharding.NodeID) {
	w.after(w.delay(), func() {
		i := slices.IndexFunc(w.regions, func(r *fakeRegion) bool { return r.id == to && r.up })
		switch {
		case !w.wanted[to] || w.links[to] != nil:
		case i < 0:
			w.after(50*ms, func() { w.dial(to) })
		default:
			w.number++
			l := &fakeLink{w: w, number: w.number, region: w.regions[i], routerOpen: true, regionOpen: true}
			w.links[to] = l
			w.inbox = append(w.inbox, LinkUp{Region: to, Link: l.number})
		}
	})
}

// lose ends the router's side of a link.
func (l *fakeLink) lose() {
	if !l.routerOpen {
		return
	}
	l.routerOpen = false
	w, to := l.w, l.region.id
	if w.links[to] == l {
		delete(w.links, to)
		w.inbox = append(w.inbox, LinkDown{Region: to, Link: l.number})
		w.dial(to)
	}
}

func (l *fakeLink) toRegion(o SendCommand) {
	l.up = max(l.up+1, l.w.now+l.w.delay())
	l.w.after(l.up-l.w.now, func() { l.region.read(job{link: l, send: o}) })
}

func (l *fakeLink) toRouter(in Input) {
	if !l.regionOpen {
		return
	}
	l.down = max(l.down+1, l.w.now+l.w.delay())
	l.w.after(l.down-l.w.now, func() {
		if l.routerOpen {
			l.w.inbox = append(l.w.inbox, in)
		}
	})
}

// enqueue runs f in the region, in order, when the region is not paused.
func (r *fakeRegion) enqueue(f func()) {
	r.inbox = append(r.inbox, f)
	r.pump()
}

func (r *fakeRegion) pump() {
	for len(r.inbox) > 0 && !r.pumping {
		r.pumping = true
		if r.w.now < r.pausedUntil {
			r.w.after(r.pausedUntil-r.w.now, func() {
				r.pumping = false
				r.pump()
			})
			return
		}
		run := r.inbox[0]
		r.inbox = r.inbox[1:]
		if r.up {
			run()
		}
		r.pumping = false
	}
}

func (r *fakeRegion) read(j job) {
	r.enqueue(func() {
		if l := r.w.links[r.id]; l != nil && l.number > j.link.number {
			j.link.regionOpen = false // a newer link ends the older one
		}
		if !j.link.regionOpen {
			return
		}
		s := r.shards[j.send.Shard]
		switch {
		case s == nil || s.stopping || s.epoch != j.send.Epoch:
			r.refuse(j)
		case r.old && j.send.Env.Command == "New":
			r.w.regionRefused(j.send)
			j.link.toRouter(Answer{Attempt: j.send.Attempt, Reply: sharding.Reject(sharding.UnknownCommand, "old")})
		case r.w.chance(0.02):
			r.w.regionRefused(j.send)
			j.link.toRouter(Answer{Attempt: j.send.Attempt, Reply: sharding.Reject(sharding.ResourceExhausted, "full")})
		default:
			s.queue = append(s.queue, j)
			r.work(s)
		}
	})
}

func (r *fakeRegion) refuse(j job) {
	in := NotMine{Attempt: j.send.Attempt, Refused: j.send.Epoch}
	if r.w.rng.IntN(2) == 0 {
		in.Row = r.w.truth[j.send.Shard]
	}
	j.link.toRouter(in)
}

// work executes the queue of a shard in order.
func (r *fakeRegion) work(s *held) {
	if s.running || len(s.queue) == 0 {
		return
	}
	s.running = true
	r.w.after(r.w.delay(), func() {
		r.enqueue(func() {
			s.running = false
			j := s.queue[0]
			s.queue = s.queue[1:]
			r.execute(s, j)
			r.work(s)
		})
	})
}

func (r *fakeRegion) execute(s *held, j job) {
	w, o := r.w, j.send
	if w.fence[o.Shard] != s.epoch {
		s.stopping = true
		r.refuse(j)
		return
	}
	reply := sharding.Reply{Outcome: sharding.Executed}
	done := o.Env.Command == "Get" || o.Env.Keyed && w.applied[o.Env.ID] > 0
	switch {
	case w.chance(0.03):
		reply = sharding.Reject(sharding.Unavailable, "not now")
		done = true
	case w.chance(0.03):
		reply = sharding.Doubt(sharding.Unavailable, "lost at commit")
		done = done || w.rng.IntN(2) == 0
	}
	if reply.Outcome != sharding.Executed {
		w.regionRefused(o)
	}
	if !done {
		w.applied[o.Env.ID]++
		w.log[o.Env.Entity] = append(w.log[o.Env.Entity], w.request(o.Env.ID))
	}
	j.link.toRouter(Answer{Attempt: o.Attempt, Reply: reply})
}

// regionRefused notes that a region refused a command: later ones may overtake it.
func (w *world) regionRefused(o SendCommand) {
	w.unreported[o.Attempt] = true
	if w.newest[o.Env.ID] > o.Attempt {
		w.overtaken[w.request(o.Env.ID)] = true
	}
}

func (w *world) request(id sharding.CommandID) RequestID {
	var n RequestID
	for _, c := range id {
		n = n*10 + RequestID(c-'0')
	}
	return n
}

// publish adds a row to the table.
func (w *world) publish(row sharding.Row) {
	if row.Newer(w.truth[row.Shard]) {
		w.truth[row.Shard] = row
		w.changes = append(w.changes, row)
	}
}

// home allocates a shard unless its row is above the refused epoch.
func (w *world) home(o control.GetShardHome) {
	if row := w.truth[o.Shard]; row.Epoch <= o.Refused || row.Epoch == 0 {
		w.allocate(o.Shard)
	}
}

// allocate gives a shard to some region that is up, without asking the owner.
func (w *world) allocate(id sharding.ShardID) {
	r := w.regions[w.rng.IntN(len(w.regions))]
	row := sharding.Row{Shard: id, Owner: r.id, Epoch: max(w.truth[id].Epoch, sharding.MakeEpoch(1, 0)) + 1, Phase: sharding.Starting}
	w.publish(row)
	w.after(w.delay(), func() {
		r.enqueue(func() {
			if w.fence[id] >= row.Epoch || r.id != row.Owner {
				return
			}
			w.fence[id] = row.Epoch
			r.shards[id] = &held{epoch: row.Epoch}
			row.Phase = sharding.Serving
			w.after(w.delay(), func() { w.publish(row) })
		})
	})
	w.after(500*ms, func() { // not claimed, or its owner died
		if w.truth[id] == row || w.truth[id].Epoch == row.Epoch && r.id != row.Owner {
			w.allocate(id)
		}
	})
}

// handOff moves a shard gracefully.
func (w *world) handOff(row sharding.Row) {
	i := slices.IndexFunc(w.regions, func(r *fakeRegion) bool { return r.id == row.Owner })
	if i < 0 || row.Phase != sharding.Serving {
		w.allocate(row.Shard)
		return
	}
	row.Phase = sharding.HandingOff
	w.publish(row)
	r := w.regions[i]
	var stop func()
	stop = func() {
		s := r.shards[row.Shard]
		if s != nil && s.epoch == row.Epoch && r.up {
			if s.stopping = true; len(s.queue) > 0 || s.running {
				w.after(5*ms, func() { r.enqueue(stop) })
				return
			}
		}
		if w.truth[row.Shard] == row {
			w.allocate(row.Shard)
		}
	}
	w.after(w.delay(), func() { r.enqueue(stop) })
	w.after(time.Second, func() {
		if w.truth[row.Shard] == row {
			w.allocate(row.Shard)
		}
	})
}

// fault injects a fault, or moves a shard.
func (w *world) fault() {
	if w.calm {
		return
	}
	w.after(time.Duration(w.rng.IntN(300))*ms, w.fault)
	r := w.regions[w.rng.IntN(len(w.regions))]
	ids := slices.SortedFunc(maps.Keys(w.truth), sharding.ShardID.Compare)
	switch w.rng.IntN(8) {
	case 0:
		r.crash()
	case 1:
		r.pausedUntil = w.now + time.Duration(w.rng.IntN(1500))*ms
	case 2, 3:
		if l := w.links[r.id]; l != nil {
			w.after(time.Duration(w.rng.IntN(50))*ms, l.lose)
			w.after(time.Duration(w.rng.IntN(300))*ms, func() { l.regionOpen = false })
		}
	case 4, 5, 6:
		if len(ids) > 0 {
			w.handOff(w.truth[ids[w.rng.IntN(len(ids))]])
		}
	case 7:
		if len(ids) > 0 {
			w.allocate(ids[w.rng.IntN(len(ids))])
		}
	}
}

// crash ends an incarnation; a new one starts at the same address.
func (r *fakeRegion) crash() {
	w, old := r.w, r.id
	r.up = false
	if l := w.links[old]; l != nil {
		l.regionOpen = false
		w.after(w.delay(), l.lose)
	}
	i := slices.Index(w.regions, r)
	w.regions[i] = &fakeRegion{w: w, old: w.rng.IntN(2) == 0, id: sharding.NodeID{Addr: old.Addr, UID: old.UID + 1}, up: true, shards: map[sharding.ShardID]*held{}}
	w.after(200*ms, func() {
		for _, id := range slices.SortedFunc(maps.Keys(w.truth), sharding.ShardID.Compare) {
			if w.truth[id].Owner == old {
				w.allocate(id)
			}
		}
	})
}

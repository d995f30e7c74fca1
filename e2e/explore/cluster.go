package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/region"
)

var (
	desc = sharding.TypeDesc{Type: "T", Shards: 1, Commands: []sharding.CommandDesc{
		{Name: cmdAdd}, {Name: cmdGet, ReadOnly: true},
	}}
	// earlier is a region that only registers, see cluster.rollout.
	earlier    = sharding.NodeID{Addr: "r2", UID: 1}
	theShard   = sharding.ShardID{Type: "T"}
	theEntity  = sharding.Entity{Type: "T", ID: "e"}
	factShard  = sharding.ShardID{Type: "roost.coordinator"}
	factEntity = sharding.Entity{Type: "roost.coordinator", ID: "facts"}
)

const (
	cmdAdd = "Add" // appends the number of the command
	cmdGet = "Get"
	// timeoutStep is the time that passes at a timeout of a process: more than
	// any pause of the cores.
	timeoutStep = time.Second
)

// start is the time at which every search begins.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// The parts of a cluster.
const (
	coordPart  = 0 // and the next
	hostPart   = 2 // and the next
	storePart  = 4
	clientPart = 5

	bothCoords parts = 1<<coordPart | 2<<coordPart
	bothHosts  parts = 1<<hostPart | 2<<hostPart
	ofStore    parts = 1 << storePart
	ofClient   parts = 1 << clientPart
)

func ofCoord(i int) parts { return 1<<(coordPart+i) | ofStore }

// ofHost: an answer of a region is the client's, who compares it with what is
// committed.
func ofHost(i int) parts { return 1<<(hostPart+i) | ofStore | ofClient }

// cluster is two coordinators, two regions, a journal and a client.
type cluster struct {
	now    time.Time
	coords [2]*coord
	hosts  [2]*host
	*store
	*client
	sent []*message
	why  string
	// rollout: r1 stores in a form that r0 reads, but the region earlier does not. So no successor of r1 can be
	// chosen before r1 has reported its stored forms. The region earlier is drained and cordoned.
	rollout bool
	// prompt: the coordinators decide in no time, and nothing happens to them.
	prompt bool

	crashes   [2]*move // of regions
	elections [2]*move
	timeouts  [maxParts]*move
	sendings  map[sending]*move
}

// store is the journal, and the knowledge from reading it.
type store struct {
	ledger *memory.Ledger
	served []sharding.Row
	facts  []sharding.Row // durable rows
	// reserved are those that successors may claim without another fact.
	reserved []sharding.Row
	read     int    // how much of the log of commits they were read from
	last     uint64 // sequence number of the entity
}

func (s *store) clone() part {
	return &store{s.ledger.Clone(), slices.Clone(s.served), slices.Clone(s.facts), slices.Clone(s.reserved), s.read, s.last}
}

func (s *store) appendState(b []byte) []byte { return s.ledger.AppendState(b, start) }

// term is the newest that was elected.
func (s *store) term() sharding.Term { return s.ledger.Fence(factShard).Epoch.Term() }

// newCluster is a cluster whose shard has just been given to one of the
// regions; no process knows it yet.
func newCluster(rollout bool) *cluster {
	w := &cluster{
		rollout: rollout, now: start, store: &store{ledger: memory.NewLedger(journal.DefaultConfig())}, client: &client{},
		sendings: map[sending]*move{},
	}
	for i := range w.hosts {
		w.startRegion(i, sharding.NodeUID(i+1))
		w.crashes[i] = &move{name: fmt.Sprintf("crash of r%d", i), fault: true, uses: ofHost(i) | bothCoords, do: func() { w.crashRegion(i) }}
		w.timeouts[hostPart+i] = &move{name: fmt.Sprintf("time runs out at r%d", i), timeout: true, uses: ofHost(i), do: func() {
			w.shardStep(i, region.Tick{})
			w.controlStep(i, region.Tick{})
		}}
	}
	for i := range w.coords {
		w.coords[i] = &coord{}
		w.startCoordinator(i)
		w.elections[i] = &move{name: fmt.Sprintf("c%d is elected", i), fault: true, uses: ofCoord(i) | bothHosts, do: func() { w.elect(i) }}
		w.timeouts[coordPart+i] = &move{name: fmt.Sprintf("time runs out at c%d", i), timeout: true, uses: ofCoord(i), do: func() {
			w.coordStep(i, coordinator.Tick{})
		}}
	}
	w.sent = nil
	w.elect(0)
	for len(w.sent) > 0 { // the regions register
		m := w.sent[0]
		w.sent = w.sent[1:]
		m.moves[0].do()
	}
	w.coordStep(0, coordinator.Received{Msg: control.GetShardHome{Shard: theShard}})
	m := w.sent[0]
	w.sent = nil
	m.moves[0].do()
	return w
}

func (w *cluster) load(passed int, all [maxParts]part) {
	w.now, w.sent, w.why = start.Add(time.Duration(passed)*timeoutStep), nil, ""
	for i := range w.coords {
		w.coords[i], _ = all[coordPart+i].(*coord)
		w.hosts[i], _ = all[hostPart+i].(*host)
	}
	w.store, _ = all[storePart].(*store)
	w.client, _ = all[clientPart].(*client)
}

func (w *cluster) unload() (all [maxParts]part, sent []*message, why string) {
	if w.client != nil {
		w.check()
	}
	for i := range w.coords {
		if w.coords[i] != nil {
			w.coords[i].view()
			all[coordPart+i] = w.coords[i]
		}
		if w.hosts[i] != nil {
			all[hostPart+i] = w.hosts[i]
		}
	}
	if w.store != nil {
		all[storePart] = w.store
	}
	if w.client != nil {
		all[clientPart] = w.client
	}
	return all, w.sent, w.why
}

func (w *cluster) fail(format string, args ...any) {
	if w.why == "" {
		w.why = fmt.Sprintf(format, args...)
	}
}

// addMessage sends a message that may arrive, or get lost.
func (w *cluster) addMessage(text string, uses parts, do func()) *message {
	m := &message{text: text}
	m.moves = []*move{{name: "arrives: " + text, takes: m, uses: uses, do: do}}
	w.sent = append(w.sent, m)
	return m
}

// send sends a message, which may be doubled.
func (w *cluster) send(text string, uses parts, do func()) *message {
	m := w.addMessage(text, uses, do)
	m.moves = append(m.moves, &move{name: "doubled: " + text, fault: true, uses: uses, do: do})
	return m
}

// commit sends an operation to the journal. If the outcome is unknown to those
// who asked, it may happen later; a read does not matter then.
func (w *cluster) commit(text string, uses parts, op journal.Op, done func(journal.Result)) *message {
	m := w.addMessage(text, uses, func() { done(w.apply(op)) })
	m.moves = append(m.moves, &move{name: "outcome unknown: " + text, fault: true, takes: m, uses: uses, do: func() {
		if op.Fence == nil {
			w.addMessage("late: "+text, ofStore|ofClient, func() { w.apply(op) }).void = refusedForever(op)
		}
		done(journal.Result{Verdict: sharding.UnknownOutcome})
	}})
	return m
}

// apply is the journal at work.
func (w *cluster) apply(op journal.Op) journal.Result {
	r := w.ledger.Apply(journal.Moment{Wall: start}, []journal.Op{op})[0]
	w.checkJournal()
	return r
}

func (w *cluster) moves(e *engine, s *state, list []*move) []*move {
	term := storeIn(e, s).term()
	list = append(list, w.crashes[:]...)
	for i := range w.coords {
		c := coordIn(e, s, i)
		if c.live {
			list = append(list, w.timeouts[coordPart+i])
		}
		if !c.live || c.term < term {
			list = append(list, w.elections[i])
		}
		list = append(list, w.timeouts[hostPart+i])
	}
	return w.callMoves(e, s, list)
}

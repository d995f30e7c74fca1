package coordinator

import (
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/intent"
)

// Gate stands between a [Machine] and its driver for one term. It holds back every output until the facts before it
// are durable, determines the facts to store next, as one record at a time, and keeps the stream of records short.
//
// What waits is bounded: a message that is waiting already is not added again, an answer is dropped when its caller
// no longer waits, and [Gate.OverLimit] reports when more outputs are held back than the limits allow.
//
// # Checkpoints
//
// When the stream has become much longer than the table, the facts of the table are stored again, a few with each
// record. These facts are the checkpoint. Of several facts about the same thing only the newest counts, so new facts
// can be stored in between. When the last fact of the checkpoint is durable, its mark is stored: an empty snapshot at the
// record before the first record of the checkpoint. It marks the record at which reading begins. So nothing
// larger than a record is ever written, however large the table is.
type Gate struct {
	cfg Config
	seq uint64 // the sequence number of the last durable record

	held    []heldOutput
	base    uint64                  // how many outputs were taken from the front of held
	facts   int                     // facts in held that are not durable
	durable int                     // facts in held that are durable
	dropped int                     // outputs in held that will not leave
	bytes   int                     // of held
	sends   map[Send]struct{}       // the messages in held
	replies map[control.Call]uint64 // the positions of the answers in held
	rows    *sharding.Row           // of the newest delta, which the next one may share

	busy     bool // a record is in progress
	newFacts int  // new facts in that record; its other facts belong to a checkpoint

	afterMark   int    // facts in the stream after its mark
	first       uint64 // first record of the checkpoint in progress; 0: none
	cursor      cursor // of the checkpoint
	done        bool   // all facts of the checkpoint are in records
	copiedFacts int    // facts of the checkpoint in the record in progress
	own         int    // how many facts of afterMark are in the record first or later ones
	compacting  bool   // the mark is in progress
}

// heldOutput is an output that waits. If o is nil, the output was dropped.
type heldOutput struct {
	o     Output
	bytes int
}

// NewGate begins a term: seq is the number of the last record in the stream,
// facts how many facts follow its mark.
func NewGate(cfg Config, seq uint64, facts int) *Gate {
	return &Gate{cfg: cfg, seq: seq, afterMark: facts, sends: map[Send]struct{}{}, replies: map[control.Call]uint64{}}
}

// Add takes the outputs of a Step.
func (g *Gate) Add(outs []Output) {
	for _, o := range outs {
		switch o := o.(type) {
		case Persist:
			g.facts++
		case Send:
			if _, waits := g.sends[o]; waits {
				continue
			}
			g.sends[o] = struct{}{}
		case Reply:
			g.Forget(o.Call) // a call has one answer
			g.replies[o.Call] = g.base + uint64(len(g.held))
		}
		h := heldOutput{o: o, bytes: g.size(o)}
		g.held, g.bytes = append(g.held, h), g.bytes+h.bytes
	}
}

// Forget drops the answer to a call.
func (g *Gate) Forget(call control.Call) {
	if at, waits := g.replies[call]; waits {
		h := &g.held[at-g.base]
		g.bytes -= h.bytes
		*h = heldOutput{}
		delete(g.replies, call)
		if g.dropped++; 2*g.dropped > len(g.held) {
			g.compact()
		}
	}
}

// compact removes dropped outputs from held. Otherwise held would grow while the journal does not answer,
// because callers give calls up and make them again all the time.
func (g *Gate) compact() {
	g.held = slices.DeleteFunc(g.held, func(h heldOutput) bool { return h.o == nil })
	g.dropped = 0
	for i, h := range g.held {
		if r, ok := h.o.(Reply); ok {
			g.replies[r.Call] = g.base + uint64(i)
		}
	}
}

// Release appends to out the outputs that may leave now, in order.
func (g *Gate) Release(out []Output) []Output {
	n := 0
	for _, h := range g.held {
		if _, fact := h.o.(Persist); fact {
			if g.durable == 0 { //mutant:false held-until-durable
				break
			}
			g.durable = max(g.durable-1, 0)
		} else if h.o == nil {
			g.dropped--
		} else {
			out = append(out, h.o)
			switch o := h.o.(type) {
			case Send:
				delete(g.sends, o)
			case Reply:
				delete(g.replies, o.Call)
			}
		}
		g.bytes -= h.bytes
		n++
	}
	clear(g.held[:n])
	g.held, g.base = g.held[n:], g.base+uint64(n)
	if len(g.held) == 0 {
		g.held, g.rows = nil, nil
	}
	return out
}

// BeginRecord appends the facts of the next record to facts, and notes that the record is in progress. It
// appends none if there is nothing to store, or if a record is in progress already. Joined facts are in one
// record, even if it becomes larger than the limits. The parameter m is the Machine whose outputs the Gate
// holds.
func (g *Gate) BeginRecord(m *Machine, facts []Fact) []Fact {
	if g.busy {
		return facts
	}
	start, bytes := len(facts), 0
	for _, h := range g.held {
		if g.newFacts == g.facts {
			break
		}
		if p, ok := h.o.(Persist); ok {
			if !p.Joined && g.full(len(facts)-start, bytes) {
				break
			}
			facts, bytes = append(facts, p.Fact), bytes+factSize(p.Fact)
			g.newFacts++
		}
	}
	// Facts of the table may be copied only if they are durable or in this record. So a checkpoint waits
	// until the record has all new facts.
	if g.newFacts == g.facts {
		facts = g.checkpointFacts(m, facts, start, bytes)
	}
	g.busy = len(facts) > start
	return facts
}

func (g *Gate) full(facts, bytes int) bool {
	return facts >= g.cfg.FactsPerRecord || bytes >= g.cfg.RecordBytes
}

// checkpointFacts fills a record up with facts of the table, if a checkpoint is due or in progress.
func (g *Gate) checkpointFacts(m *Machine, facts []Fact, start, bytes int) []Fact {
	if g.first == 0 && g.seq > 0 && g.afterMark >= max(g.cfg.CompactAfter, 2*m.table.allocated) {
		g.first, g.cursor, g.done, g.own = g.seq+1, cursor{}, false, 0
	}
	if g.first == 0 || g.done {
		return facts
	}
	for !g.full(len(facts)-start, bytes) {
		f := m.next(&g.cursor)
		if f == nil {
			g.done = true
			break
		}
		facts, bytes = append(facts, f), bytes+factSize(f)
		g.copiedFacts++
	}
	return facts
}

// Seq returns the sequence number of the record in progress.
func (g *Gate) Seq() uint64 { return g.seq + 1 }

// Busy reports whether a record is in progress.
func (g *Gate) Busy() bool { return g.busy }

// Stored records that the record in progress is durable. It returns the number of facts of the Machine in it, for the
// Machine's [Stored].
func (g *Gate) Stored() int {
	n, all := g.newFacts, g.newFacts+g.copiedFacts
	g.seq++
	g.durable += n
	g.facts -= n
	g.afterMark += all
	if g.first > 0 {
		g.own += all
	}
	g.newFacts, g.copiedFacts, g.busy = 0, 0, false
	return n
}

// Checkpoint returns the sequence number of the mark that must be written now, because a checkpoint is
// durable. If none must be written, it returns 0. [Gate.CheckpointEnded] takes the result of the write.
func (g *Gate) Checkpoint() uint64 {
	if g.first == 0 || !g.done || g.copiedFacts > 0 || g.compacting {
		return 0
	}
	g.compacting = true
	// Invariant: no fact is lost when the fact stream is compacted.
	// Guarded by: `coordinator.Gate` stores a checkpoint first. Only then does the mark say that reading
	// begins with this checkpoint.
	// Mutants: checkpoint-first
	//mutant:do checkpoint-first return g.seq
	return g.first - 1
}

// CheckpointEnded records whether the mark is stored. If it is not, method Checkpoint returns its sequence number
// again.
func (g *Gate) CheckpointEnded(stored bool) {
	g.compacting = false
	if stored {
		g.afterMark, g.first = g.own, 0
	}
}

// Held returns how many outputs are held back, how many of them are facts, and their
// size in bytes.
func (g *Gate) Held() (outputs, facts, bytes int) { return len(g.held), g.facts, g.bytes }

// OverLimit returns an error, with the number, if more outputs are held back than the limits allow.
func (g *Gate) OverLimit() error {
	switch {
	case len(g.held) > g.cfg.MaxHeld:
		return fmt.Errorf("%d outputs wait for facts to be stored, at most %d may", len(g.held), g.cfg.MaxHeld)
	case g.bytes > g.cfg.MaxHeldBytes:
		return fmt.Errorf("outputs of %d bytes wait for facts to be stored, at most %d may", g.bytes, g.cfg.MaxHeldBytes)
	}
	return nil
}

// End returns the calls whose answers must not leave any more because the term is over.
func (g *Gate) End() []control.Call {
	var calls []control.Call
	for _, h := range g.held {
		if r, ok := h.o.(Reply); ok {
			calls = append(calls, r.Call)
		}
	}
	return calls
}

// About what is taken in memory by an output in held, and by a row of a delta.
const (
	outputBytes = 160
	rowBytes    = 72
)

// size estimates the memory that an output takes. Deltas that one change causes
// share their rows.
func (g *Gate) size(o Output) int {
	r, _ := o.(Reply)
	w, ok := r.Msg.(control.TableChanged)
	if !ok || len(w.Delta.Rows) == 0 || g.rows == &w.Delta.Rows[0] {
		return outputBytes
	}
	g.rows = &w.Delta.Rows[0]
	return outputBytes + rowBytes*len(w.Delta.Rows)
}

// factSize returns a size that is at least the length of a fact as stored, and not much more.
func factSize(f Fact) int {
	const numbers = 64
	switch f := f.(type) {
	case RowFact: // Before is stored twice, and the second time with NextMay
		return 4*numbers + len(f.Before) + len(f.NextMay) + len(f.Row.Shard.Type) + len(f.Row.Owner.Addr) + len(f.Before) + len(f.May) + len(f.NextMay) + len(f.Successor.Addr) + len(f.Previous.Owner.Addr)
	case TypeFact:
		n := numbers + len(f.Desc.Type)
		for _, c := range f.Desc.Commands {
			n += 16 + len(c.Name)
		}
		for _, form := range f.Forms {
			n += 32 + len(form.Name)
		}
		for _, v := range f.By {
			n += 8 + len(v)
		}
		return n
	case DrainFact:
		return 2*numbers + len(f.Region.Addr) + f.Note.Size()
	case CordonFact:
		return 2*numbers + len(f.Region) + f.Note.Size()
	case FreezeFact:
		return 2*numbers + f.Note.Size()
	case PinFact:
		return 2*numbers + len(f.Shard.Type) + len(f.Region) + f.Note.Size()
	case MoveFact:
		return 2*numbers + len(f.Shard.Type) + len(f.Region) + f.Note.Size()
	case QuarantineFact:
		n := 4*numbers + len(f.Entity.Type) + len(f.Entity.ID) + len(f.Command) + len(f.Cause) + f.Note.Size()
		for _, c := range f.Crashes {
			n += 32 + len(c.Region)
		}
		return n
	case TargetFact:
		n := numbers + len(f.Version)
		for _, v := range f.Seen {
			n += 8 + len(v)
		}
		return n
	case UnknownFact:
		return numbers + len(f.Name) + len(f.Payload)
	}
	return numbers
}

// cursor is the position of a checkpoint in the facts of a table: types, what operators want but for moves, rows, moves,
// quarantined entities, a loss of facts, unknown facts. It names the next fact by its key and not by its position,
// because facts before it may have come or gone meanwhile.
type cursor struct {
	kind cursorKind
	typ  sharding.EntityType
	row  int
	wish intent.Cursor
	lost bool // the loss was given
	// unknown is the number of unknown facts that were given. Their list changes only when a term begins.
	unknown int
	suspect sharding.EntityID // the last suspect that was given; of the type typ
}

// cursorKind is a place in that list; the last one is the end as well.
type cursorKind uint8

const (
	atTypes cursorKind = iota
	atWishes
	atRows
	atMoves
	atSuspects
	atRest
)

// next returns the fact at the cursor, and moves the cursor on; nil: there is no further fact.
func (tr *transit) next(c *cursor) Fact {
	if c.kind == atTypes {
		i, found := tr.table.searchType(c.typ)
		if found {
			i++ // typ is the last one that was given
		}
		if i < len(tr.table.types) {
			c.typ = tr.table.types[i].desc.Type
			return tr.table.types[i].fact(tr.table.types[i].desc)
		}
		*c = cursor{kind: atWishes}
	}
	if c.kind == atWishes {
		if f := tr.intent.Next(&c.wish, intent.Pins); f != nil {
			return f
		}
		c.kind = atRows
	}
	if r := tr.nextOfType(c, atRows, func(t *typeTable) Fact {
		for c.row < len(t.rows) {
			c.row++
			if r := &t.rows[c.row-1]; r.Epoch != 0 {
				return r.fact(r.Row)
			}
		}
		return nil
	}); r != nil {
		return r
	}
	if c.kind == atMoves {
		if f := tr.intent.Next(&c.wish, intent.Moves); f != nil {
			return f
		}
		c.kind = atSuspects
	}
	if f := tr.nextOfType(c, atSuspects, func(t *typeTable) Fact {
		if c.row == 0 {
			c.suspect = ""
		}
		f, found := tr.quarantine.After(t.desc.Type, c.suspect)
		if !found {
			return nil
		}
		c.row, c.suspect = 1, f.Entity.ID
		return f
	}); f != nil {
		return f
	}
	if tr.ledger.lost && !c.lost {
		c.lost = true
		return LossFact{}
	}
	if c.unknown < len(tr.ledger.unknown) {
		c.unknown++
		return tr.ledger.unknown[c.unknown-1]
	}
	return nil
}

// nextOfType returns the next fact of a kind that types have. From the row of the cursor on,
// next returns the next one of a type, and moves the row on; nil: there is none.
func (tr *transit) nextOfType(c *cursor, kind cursorKind, next func(*typeTable) Fact) Fact {
	if c.kind != kind {
		return nil
	}
	i, found := tr.table.searchType(c.typ)
	if !found {
		c.row = 0
	}
	for ; i < len(tr.table.types); i++ {
		if c.typ != tr.table.types[i].desc.Type {
			c.typ, c.row = tr.table.types[i].desc.Type, 0
		}
		if f := next(tr.table.types[i]); f != nil {
			return f
		}
	}
	c.kind, c.typ, c.row = kind+1, "", 0
	return nil
}

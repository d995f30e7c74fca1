package coordinator

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/latency"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/scenariotest"
	"github.com/roost-cluster/roost/services/coordinator/internal/budget"
	"github.com/roost-cluster/roost/services/coordinator/internal/quarantine"
)

// TestScenarios runs the scenarios. The commands are the cases of world.do.
func TestScenarios(t *testing.T) {
	scenariotest.Run(t, play)
}

// play runs the scenarios of a file.
func play(t *testing.T) scenariotest.Play {
	w := newWorld(t, DefaultConfig())
	return func(commands []string) (trace []string) {
		w.trace = nil
		for _, c := range commands {
			w.do(c)
		}
		for _, line := range w.trace {
			trace = append(trace, line.String())
		}
		return trace
	}
}

// world drives one machine and checks its outputs: facts are stored
// before anything depends on them, and folding them gives the same table.
type world struct {
	t     *testing.T
	cfg   Config
	m     *Machine
	start time.Time
	now   time.Time
	facts []Fact
	// stored are the rows of facts, reserved those that successors may claim by the newest fact.
	stored, reserved map[sharding.ShardID]sharding.Row
	trace            []traceLine
	// explained are the newest explanations about shards, explanations all since the last command of this
	// name.
	explained    map[sharding.ShardID]Explanation
	explanations []Explanation
	// callers are the regions that made the calls.
	callers map[control.Call]string
}

func newWorld(t *testing.T, cfg Config) *world {
	now := time.Unix(1_000_000, 0)
	return &world{t: t, cfg: cfg, m: New(cfg), start: now, now: now, stored: map[sharding.ShardID]sharding.Row{}, reserved: map[sharding.ShardID]sharding.Row{}, explained: map[sharding.ShardID]Explanation{}, callers: map[control.Call]string{}}
}

// step runs one input, checks everything, and returns the outputs.
func (w *world) step(in Input) []Output {
	w.t.Helper()
	braked := w.m.budget.Brake(&w.m.cfg.Config).State == BrakeStopped
	out := w.m.Step(w.now, in, nil)
	if braked {
		w.checkBraked(out)
	}
	if err := w.m.Check(); err != nil {
		w.t.Fatalf("after %T%+v: %v", in, in, err)
	}
	for _, o := range out {
		if err := w.observe(o); err != nil {
			w.t.Fatalf("after %T%+v: %T%+v: %v", in, in, o, o, err)
		}
	}
	return out
}

// checkBraked checks that no voluntary move begins.
func (w *world) checkBraked(out []Output) {
	w.t.Helper()
	for _, o := range out {
		p, ok := o.(Persist)
		if f, row := p.Fact.(RowFact); ok && row && f.Row.Phase == sharding.HandingOff && budget.NeedOf(f.Cause) == budget.Voluntary {
			w.t.Fatalf("while moves are stopped, %+v", f)
		}
	}
}

// persisted counts the facts among outputs.
func persisted(out []Output) int {
	n := 0
	for _, o := range out {
		_, fact := o.(Persist)
		n += toInt(fact)
	}
	return n
}

func (w *world) observe(o Output) error {
	switch o := o.(type) {
	case Persist:
		w.facts = append(w.facts, o.Fact)
		if f, ok := o.Fact.(RowFact); ok {
			if last := w.stored[f.Row.Shard]; !f.Row.Newer(last) {
				return fmt.Errorf("not newer than %+v", last)
			}
			if f.Row.Phase != sharding.Serving || f.Row.Owner != w.stored[f.Row.Shard].Owner {
				if d := w.explained[f.Row.Shard]; d.Epoch != f.Row.Epoch || d.Cause != f.Cause || d.Cause == 0 {
					return fmt.Errorf("its cause is %v, and the explanation was %+v", f.Cause, d)
				}
			}
			w.store(f)
		}
	case Explained:
		w.explanations = append(w.explanations, o.Explanation)
		if o.Kind != Requested {
			w.explained[o.Shard] = o.Explanation
		}
	case Send:
		about := o.Msg.About()
		r := w.stored[about.Shard]
		if reserved := w.reserved[about.Shard]; is[control.HostShard](o) && reserved.Epoch == about.Epoch {
			r = reserved
		}
		if handOff := about.Phase == sharding.HandingOff; r.Epoch != about.Epoch || r.Owner != o.To || handOff != (r.Phase == sharding.HandingOff) {
			return fmt.Errorf("stored is %+v", r)
		}
	case Reply:
		for _, row := range o.Msg.About().Rows {
			if r := w.stored[row.Shard]; row.Newer(r) {
				return fmt.Errorf("stored is %+v", r)
			}
		}
	}
	return nil
}

// store notes the newest row of a shard.
func (w *world) store(f RowFact) {
	w.stored[f.Row.Shard] = f.Row
	delete(w.reserved, f.Row.Shard)
	if f.Next != 0 {
		w.reserved[f.Row.Shard] = sharding.Row{Shard: f.Row.Shard, Owner: f.Successor, Epoch: f.Next, Phase: sharding.Starting}
	}
}

// from is a one-way message of a process.
func from(n sharding.NodeID, m control.Message) Received { return Received{From: n, Msg: m} }

// calls is a call of a process, which all have the same number.
func calls(n sharding.NodeID, m control.Message) Received {
	return Received{From: n, Call: 1_000_000, Msg: m}
}

// sent returns the message that an output sends or answers with, or nil.
func sent(o Output) control.Message {
	switch o := o.(type) {
	case Send:
		return o.Msg
	case Reply:
		return o.Msg
	}
	return nil
}

// is reports whether an output sends or answers with a message of type M.
func is[M control.Message](o Output) bool {
	_, ok := sent(o).(M)
	return ok
}

// checkReplay folds the facts into another machine and compares the tables.
func (w *world) checkReplay() {
	w.t.Helper()
	if !w.m.term.active {
		return
	}
	other := New(w.cfg)
	other.Step(w.now, Elected{Term: w.m.term.number + 1, Facts: w.facts}, nil)
	got, want := fmt.Sprintf("%+v", other.Snapshot()), fmt.Sprintf("%+v", w.m.Snapshot())
	if got != want {
		w.t.Fatalf("folding the facts gives\n%s\nthe machine has\n%s", got, want)
	}
}

// do runs one line of a scenario.
func (w *world) do(line string) {
	w.t.Helper()
	word, args := strings.Fields(line)[0], strings.Fields(line)[1:]
	switch word {
	case "config": // config min-regions=2 max-handoffs=1 …: a fresh standby
		w.configure(args)
	case "elect": // elect 2: with all facts so far
		w.run(Elected{Term: sharding.Term(number(w.t, args[0])), Facts: w.facts})
	case "compact": // the facts become a snapshot
		w.facts = w.m.Snapshot()
	case "depose":
		w.run(Deposed{})
	case "active": // active c2 3 [2s]: a standby hears who is active, and how long the lease lasts
		in := Active{Node: node(w.t, args[0]), Term: sharding.Term(number(w.t, args[1]))}
		if len(args) > 2 {
			left, err := time.ParseDuration(args[2])
			if err != nil {
				w.t.Fatal(err)
			}
			in.Until = w.now.Add(left)
		}
		w.run(in)
	case "member": // member r1 [named r2] [unreachable] [joining] [leaving]
		name, _, _ := strings.Cut(args[0], "#")
		if len(args) > 2 && args[1] == "named" {
			name = args[2]
		}
		w.run(Member{Node: node(w.t, args[0]), Name: name,
			Reachable: !slices.Contains(args, "unreachable"),
			Joining:   slices.Contains(args, "joining"), Leaving: slices.Contains(args, "leaving")})
	case "earlier": // earlier T:4: r0 has the first version of a program, and is drained and cordoned
		w.do("member r0")
		w.do("register r0 " + args[0] + ":v=1")
		w.do("drain r0")
		w.do("cordon r0")
	case "gone":
		w.run(MemberGone{Node: node(w.t, args[0])})
	case "register": // register r1 [last 1] [zone=a] [capacity=2] T:4 V:2:volatile
		caller, in := args[0], control.Register{Name: args[0]}
		if len(args) > 2 && args[1] == "last" {
			in.Last = sharding.Term(number(w.t, args[2]))
			args = args[2:]
		}
		for _, a := range args[1:] {
			if zone, is := strings.CutPrefix(a, "zone="); is {
				in.Zone = zone
			} else if crash, is := strings.CutPrefix(a, "crash="); is { // crash=11, or crash=11:panic, or crash=11:memory: the uid of the process
				uid, cause, _ := strings.Cut(crash, ":")
				if cause == "memory" {
					in.Crash.Evidence, cause = "its memory was full", ""
				}
				in.Crash.Of, in.Crash.Ago, in.Crash.Cause = sharding.NodeUID(number(w.t, uid)), time.Second, cause
			} else if ran, is := strings.CutPrefix(a, "ran="); is { // ran=T/x, or ran=T/x:alone, or ran=T/x:clean
				in.Crash.Turns = append(in.Crash.Turns, crashedTurn(ran))
			} else if capacity, is := strings.CutPrefix(a, "capacity="); is {
				in.Capacity = uint32(number(w.t, capacity))
			} else {
				in.Types = append(in.Types, desc(w.t, a))
			}
		}
		w.call(caller, in)
	case "home": // home T/0 [refused 1.1]
		in := control.GetShardHome{Shard: shard(w.t, args[0])}
		if len(args) > 1 {
			in.Refused = epoch(w.t, args[2])
		}
		w.run(Received{Msg: in})
	case "watch": // watch 7 [1.3]
		in := control.WatchTable{}
		if len(args) > 1 {
			e := epoch(w.t, args[1])
			in.Version = sharding.Version{Term: e.Term(), N: uint64(e.Counter())}
		}
		w.run(Received{Call: control.Call(number(w.t, args[0])), Msg: in})
	case "ended": // ended 7: no caller waits for the answer any more
		w.run(CallEnded{Call: control.Call(number(w.t, args[0]))})
	case "card": // card g1 300 20ms: the gateway has counted so many commands, each of so long
		w.run(Received{From: node(w.t, args[0]), Call: 9, Msg: control.WatchTable{Version: w.m.table.version, Card: card(w.t, args)}})
		w.run(CallEnded{Call: 9})
	case "braked":
		v := w.m.View()
		w.trace = append(w.trace, traceLine{text: fmt.Sprintf("  %v, 1/%d, %d tried: %s", v.Brake.State, v.Brake.Part, v.Brake.Trials, v.Brake.Why())})
		for _, g := range v.Gateways {
			w.trace = append(w.trace, traceLine{text: fmt.Sprintf("  %s at %s: %.1f/s, %.1f/s refused, p99 %v", nodeText(g.Node), g.Management, g.Commands, g.Refused, budget.Roughly(g.P99))})
		}
	case "started": // started r1 T/0 1.1
		w.run(from(node(w.t, args[0]), control.ShardStarted{Shard: shard(w.t, args[1]), Epoch: epoch(w.t, args[2])}))
	case "refused": // refused r1 T/0 1.1 above 1.2
		w.run(from(node(w.t, args[0]), control.HostRefused{Shard: shard(w.t, args[1]), Epoch: epoch(w.t, args[2]), Above: epoch(w.t, args[4])}))
	case "stopped": // stopped r1 T/0 1.1 [keeps]
		w.run(from(node(w.t, args[0]), control.ShardStopped{Shard: shard(w.t, args[1]), Epoch: epoch(w.t, args[2]), Keeps: slices.Contains(args, "keeps")}))
	case "shutdown":
		w.call(args[0], control.GracefulShutdown{})
	case "drain", "resume":
		in := DrainRegion{Region: node(w.t, args[0]).String(), Resume: word == "resume", By: "ben"}
		if i := slices.Index(args, "because"); i >= 0 {
			in.Reason = strings.Join(args[i+1:], " ")
		}
		w.run(in)
	case "cordon", "uncordon", "freeze", "thaw", "pin", "unpin", "move", "quarantine", "release":
		w.steer(wish(w.t, word, args), true)
	case "would": // would move T/0 r1: a dry run
		w.steer(wish(w.t, args[0], args[1:]), false)
	case "broken":
		for _, b := range w.m.View().Broken {
			if b.Shards > 0 {
				w.trace = append(w.trace, traceLine{text: fmt.Sprintf("  %d shards break %v", b.Shards, b.Constraint), times: 1})
			}
		}
	case "quarantined":
		for _, q := range w.m.Quarantine() {
			w.trace = append(w.trace, traceLine{text: fmt.Sprintf("  %v at %s: %v, %d crashes, %s: %s", q.Entity, q.Region, q.State, len(q.Crashes), who(q.By), q.Reason)})
		}
	case "steering":
		w.tellSteering()
	case "journal": // journal r1 3 silent: the third report of r1
		states := []string{"answers", "recovering", "silent"}
		w.run(from(node(w.t, args[0]), control.JournalReport{Number: number(w.t, args[1]), State: sharding.JournalState(slices.Index(states, args[2]))}))
	case "tested": // tested ok, or tested lost
		v := sharding.UnknownOutcome
		if args[0] == "ok" {
			v = sharding.RefusedEpoch
		}
		w.run(JournalTested{Verdict: v})
	case "wait": // wait 300ms: with a Tick every 50 ms
		w.wait(args[0])
	case "table":
		for _, r := range w.m.View().Rows {
			w.trace = append(w.trace, traceLine{text: "  " + rowText(r)})
		}
	case "explanations": // since the last time
		for _, d := range w.explanations {
			w.trace = append(w.trace, traceLine{text: "  " + explanationText(d)})
		}
		w.explanations = nil
	case "causes":
		for _, t := range w.m.table.types {
			for i := range t.rows {
				if r := &t.rows[i]; r.Epoch != 0 {
					w.trace = append(w.trace, traceLine{text: fmt.Sprintf("  %s: %v", rowText(r.Row), r.cause)})
				}
			}
		}
	default:
		w.t.Fatalf("unknown command %q", line)
	}
	w.checkReplay()
}

// crashedTurn reads a turn that ran at a crash.
func crashedTurn(text string) control.CrashedTurn {
	name, how, _ := strings.Cut(text, ":")
	typ, id, _ := strings.Cut(name, "/")
	out := control.CrashedTurn{Entity: sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)}, Command: "Do", Alone: how != ""}
	switch how {
	case "clean":
		out.Clean = quarantine.CleanTurns
	case "ended":
		out.Alone, out.Ended = false, true
	}
	return out
}

// call is a call of a region. Its answer shows the region.
func (w *world) call(name string, m control.Message) {
	w.t.Helper()
	call := control.Call(1_000_000 + len(w.callers))
	w.callers[call] = name
	w.run(Received{From: node(w.t, name), Call: call, Msg: m})
}

func (w *world) wait(d string) {
	left, err := time.ParseDuration(d)
	if err != nil {
		w.t.Fatal(err)
	}
	for ; left > 0; left -= 50 * time.Millisecond {
		w.now = w.now.Add(50 * time.Millisecond)
		w.run(Tick{})
	}
}

func (w *world) configure(args []string) {
	cfg := DefaultConfig()
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		if name == "strategy" {
			c := allocation.DefaultConfig()
			c.Strategy = value
			var err error
			if cfg.Strategy, err = allocation.New(c); err != nil {
				w.t.Fatal(err)
			}
			continue
		}
		n := int(number(w.t, value))
		switch name {
		case "min-regions":
			cfg.MinRegions = n
		case "max-handoffs":
			cfg.MaxHandoffs = n
		case "max-per-region":
			cfg.MaxHandoffsPerRegion = n
		case "max-watches":
			cfg.MaxWatches = n
		case "change-log":
			cfg.ChangeLog = n
		case "max-commands":
			cfg.MaxCommands = n
		case "max-types":
			cfg.MaxTypes = n
		case "max-shards":
			cfg.MaxShards = n
		case "quarantine-crashes":
			cfg.QuarantineCrashes = n
		default:
			w.t.Fatalf("unknown setting %q", a)
		}
	}
	if err := cfg.Validate(); err != nil {
		w.t.Fatal(err)
	}
	w.cfg, w.m = cfg, New(cfg)
	w.facts, w.stored, w.reserved = nil, map[sharding.ShardID]sharding.Row{}, map[sharding.ShardID]sharding.Row{}
}

func (w *world) run(in Input) {
	w.t.Helper()
	out := w.step(in)
	if n := persisted(out); n > 0 { // at once
		out = append(out, w.step(Stored{Facts: n})...)
	}
	for _, o := range out {
		if _, ok := o.(Explained); ok {
			continue // see the command explanations
		}
		if p, ok := o.(Plan); ok {
			w.run(p.Compute())
			continue
		}
		l := traceLine{text: w.outputText(o), times: 1}
		_, tick := in.(Tick)
		if _, planned := in.(Planned); tick || planned {
			l.from = w.now.Sub(w.start)
			l.to = l.from
		}
		if n := len(w.trace); n > 0 && l.from > 0 && w.trace[n-1].from > 0 && w.trace[n-1].text == l.text {
			w.trace[n-1].to, w.trace[n-1].times = l.to, w.trace[n-1].times+1
			continue
		}
		w.trace = append(w.trace, l)
	}
}

// traceLine is an output; one that comes again with every few ticks is one
// line.
type traceLine struct {
	text     string
	from, to time.Duration // 0: not by a Tick
	times    int
}

func (l traceLine) String() string {
	switch {
	case l.from == 0:
		return l.text
	case l.times == 1:
		return fmt.Sprintf("@%v %s", l.from, l.text)
	}
	return fmt.Sprintf("@%v to %v, %d times: %s", l.from, l.to, l.times, l.text)
}

func (w *world) outputText(o Output) string {
	switch o := o.(type) {
	case Persist:
		switch f := o.Fact.(type) {
		case RowFact:
			if f.Next != 0 {
				return fmt.Sprintf("persist %s, then %s %v", rowText(f.Row), nodeText(f.Successor), f.Next)
			}
			if !f.Successor.IsZero() {
				return "persist " + rowText(f.Row) + ", then " + nodeText(f.Successor)
			}
			return "persist " + rowText(f.Row)
		case TypeFact:
			return "persist " + descText(f.Desc)
		case DrainFact:
			if f.Resume {
				return "persist resume " + nodeText(f.Region)
			}
			return "persist drain " + nodeText(f.Region) + because(f.Reason)
		case CordonFact:
			if f.Lifted {
				return "persist uncordon " + f.Region
			}
			return "persist cordon " + f.Region + " after " + f.After.String() + because(f.Reason)
		case FreezeFact:
			if !f.Frozen {
				return "persist thaw"
			}
			return "persist freeze" + because(f.Reason)
		case PinFact:
			if f.Region == "" {
				return fmt.Sprintf("persist unpin %v", f.Shard)
			}
			return fmt.Sprintf("persist pin %v %s%s", f.Shard, f.Region, because(f.Reason))
		case QuarantineFact:
			return fmt.Sprintf("persist %v %v", f.Entity, f.State)
		case MoveFact:
			return fmt.Sprintf("persist move %v %v %s%s", f.Shard, f.Epoch, f.Region, because(f.Reason))
		}
	case Send:
		about := o.Msg.About()
		if h, ok := o.Msg.(control.HostShard); ok && h.Previous != (control.Previous{}) {
			return fmt.Sprintf("host %s %v %v, kept by %s at %v", nodeText(o.To), about.Shard, about.Epoch, nodeText(h.Previous.Owner), h.Previous.Epoch)
		}
		if h, ok := o.Msg.(control.HostShard); ok && h.Table != (sharding.Version{}) {
			return fmt.Sprintf("host %s %v %v, knowing table v%d.%d", nodeText(o.To), about.Shard, about.Epoch, h.Table.Term, h.Table.N)
		}
		if h, ok := o.Msg.(control.HandOff); ok && h.Next != 0 {
			text := fmt.Sprintf("handoff %s %v %v, then %s %v", nodeText(o.To), about.Shard, about.Epoch, nodeText(h.Successor), h.Next)
			if h.Table != (sharding.Version{}) {
				text += fmt.Sprintf(", knowing table v%d.%d", h.Table.Term, h.Table.N)
			}
			return text
		}
		return fmt.Sprintf("%s %s %v %v", map[string]string{"HostShard": "host", "HandOff": "handoff"}[control.Name(o.Msg)], nodeText(o.To), about.Shard, about.Epoch)
	case Reply:
		return w.replyText(o)
	}
	switch o := o.(type) {
	case TestJournal:
		return "test"
	case BrakeChanged:
		return fmt.Sprintf("log brake %v, 1/%d", o.State, o.Part)
	case NameTaken:
		return fmt.Sprintf("held up: %s has the name %s of %s", nodeText(o.By), o.Name, nodeText(o.Region))
	case ConstraintBroken:
		return fmt.Sprintf("log %d shards break %v", o.Shards, o.Constraint)
	case QuarantineChanged:
		return fmt.Sprintf("log %v %v", o.Entity, o.State)
	case DrainStays:
		return fmt.Sprintf("log drain of %s stays %s%v", o.Region, o.Shards.Type, o.Shards.Shards)
	}
	return fmt.Sprintf("%T%+v", o, o)
}

func (w *world) replyText(o Reply) string {
	switch m := o.Msg.(type) {
	case control.TableChanged:
		var b bytes.Buffer
		fmt.Fprintf(&b, "table %d v%d.%d", o.Call, m.Delta.Version.Term, m.Delta.Version.N)
		if m.Delta.Full {
			b.WriteString(" full")
		}
		for _, d := range m.Delta.Types {
			b.WriteString(", " + descText(d))
		}
		for _, r := range m.Delta.Rows {
			b.WriteString(", " + rowText(r))
		}
		return b.String()
	case control.NotActive:
		if name := w.callers[o.Call]; name != "" {
			return fmt.Sprintf("not-active %s, but %s in term %d", name, nodeText(m.Active), m.Term)
		}
		return fmt.Sprintf("not-active %d, but %s in term %d", o.Call, nodeText(m.Active), m.Term)
	case control.RegisterAck:
		if m.Refusal != "" {
			return fmt.Sprintf("refuse %s: %s", w.callers[o.Call], m.Refusal)
		}
		return fmt.Sprintf("ack %s term %d", w.callers[o.Call], m.Term)
	case control.ShutdownAck:
		return fmt.Sprintf("ack-shutdown %s term %d remaining %d", w.callers[o.Call], m.Term, m.Remaining)
	}
	return fmt.Sprintf("%T%+v", o, o)
}

func rowText(r sharding.Row) string {
	return fmt.Sprintf("%v %v %v %s", r.Shard, r.Epoch, r.Phase, nodeText(r.Owner))
}

func descText(d sharding.TypeDesc) string {
	s := fmt.Sprintf("%s:%d", d.Type, d.Shards)
	if d.Rule.Separator != "" {
		s += fmt.Sprintf(":by=%s%d", d.Rule.Separator, d.Rule.Part)
	}
	if d.Volatile {
		s += ":volatile"
	}
	for _, c := range d.Commands {
		s += ":" + c.Name
	}
	return s
}

// node reads "r1" or "r1#2": the second incarnation at that address.
func node(t *testing.T, s string) sharding.NodeID {
	if s == "nobody" {
		return sharding.NodeID{}
	}
	name, uid, again := strings.Cut(s, "#")
	n := sharding.NodeID{Addr: name + ":1", UID: 1}
	if again {
		n.UID = sharding.NodeUID(number(t, uid))
	}
	return n
}

func nodeText(n sharding.NodeID) string {
	if n.IsZero() {
		return "nobody"
	}
	name := strings.TrimSuffix(n.Addr, ":1")
	if n.UID != 1 {
		name += fmt.Sprintf("#%d", n.UID)
	}
	return name
}

// desc reads "T:4", "T:4:volatile", "T:4:Get:Set" with commands, or "T:4:v=2" of the second version of a program,
// which stores in a form that the first one does not read.
func desc(t *testing.T, s string) sharding.TypeDesc {
	parts := strings.Split(s, ":")
	d := sharding.TypeDesc{Type: sharding.EntityType(parts[0]), Shards: uint32(number(t, parts[1]))}
	for _, p := range parts[2:] {
		if rule, is := strings.CutPrefix(p, "by="); is { // "by=-1": part 1 at "-"
			d.Rule = sharding.ShardRule{Separator: rule[:1], Part: int(number(t, rule[1:]))}
		} else if p == "volatile" {
			d.Volatile = true
		} else if v, is := strings.CutPrefix(p, "v="); is {
			of := program(uint16(number(t, v)), d.Shards)
			d.Writes, d.Reads = of.Writes, of.Reads
		} else {
			d.Commands = append(d.Commands, sharding.CommandDesc{Name: p})
		}
	}
	return d
}

// card reads the arguments of a card.
func card(t *testing.T, args []string) control.Card {
	n := number(t, args[1])
	took, err := time.ParseDuration(args[2])
	if err != nil {
		t.Fatal(err)
	}
	var h latency.Histogram
	for range n {
		h.Add(took)
	}
	return control.Card{Management: args[0] + ":9", Span: time.Second, Commands: n, Refused: n / 10, Latencies: h.Sketch()}
}

func shard(t *testing.T, s string) sharding.ShardID {
	name, index, _ := strings.Cut(s, "/")
	return sharding.ShardID{Type: sharding.EntityType(name), Index: uint32(number(t, index))}
}

func epoch(t *testing.T, s string) sharding.Epoch {
	term, counter, _ := strings.Cut(s, ".")
	return sharding.MakeEpoch(sharding.Term(number(t, term)), uint32(number(t, counter)))
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

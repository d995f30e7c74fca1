package region_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/libs/test/scenariotest"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
	"github.com/roost-cluster/roost/services/region"
)

// TestScenarios runs the scenarios. The shards belong to the types T and U, which have one
// each unless there are several shard cores; epochs are written term.counter. The commands:
//
//	cores N                               first: so many shard cores, and six shards per type
//	loads MS                              first: loads are reported in this interval, two shards by themselves
//	hold | pass                           messages between cores wait, or go on
//	coordinators ADDR…                    where coordinators may be
//	table TERM N [SHARD=EPOCH:PHASE:OWNER…]  the oldest Watch is answered
//	standby ADDR TERM | watch-failed      likewise
//	registered TERM [refusal]             answers the last Register
//	journal CLUSTER|unknown [term=N]      answers every ReadJournalHeartbeat from now on; TERM is the heartbeat's
//	host SHARD EPOCH [term=N] [kept=ADDR@EPOCH]  HostShard from c1; the term is the epoch's
//	fetched [ID=STATE…]                   answers the oldest FetchKept
//	give SHARD EPOCH STOPPED | sent       GiveKept from the owner of the epoch, and KeptSent
//	handoff SHARD EPOCH [term=N]
//	claimed VERDICT [EPOCH]               answers the oldest Claim; EPOCH is the stored one
//	command R EPOCH TYPE/ID CMD [size=N]
//	loaded SEQ | done R [events=N] [event=NAME] [ran=MS] | appended VERDICT [EPOCH] | fence VERDICT [EPOCH] | stopped [STATE]
//	wakes [TYPE/ID=MS…]                   answers the oldest ReadWakes: wake-ups w that are due in MS
//	tested ok|lost                        answers the oldest TestJournal
//	count-due                             from now on CountDue is shown, and answered by:
//	due N [term=N] | due-failed           answers the last CountDue; without count-due it is 0 at once
//	taken [term=N] | not-taken            answers the last ReportLoad
//	ready                                 whether the region is ready
//	leave | remaining N [term=N] | tick MS
//	feed-router                           the router is told of the table from now on
//	state | kept                          counts
func TestScenarios(t *testing.T) { scenariotest.Run(t, play) }

// play starts a scenario.
func play(*testing.T) scenariotest.Play {
	s := newScenario()
	return func(commands []string) (trace []string) {
		for _, c := range commands {
			trace = append(trace, s.command(strings.Fields(c))...)
			trace = append(trace, s.check()...)
		}
		return trace
	}
}

// scenario is a region of one or more shard cores. What passes between them and the
// control core arrives at once, unless it is held.
type scenario struct {
	control   *region.ControlCore
	shards    []*region.ShardCore
	holds     bool
	held      []func() []string // in order
	now       time.Time
	watches   []region.Send
	registers region.Send  // the newest
	leaves    region.Send  // the newest
	reports   region.Send  // the newest ReportLoad
	dues      *region.Send // the newest CountDue; nil: 0 is answered at once
	heartbeat region.JournalHeartbeatRead
	claims    []region.Claim
	loads     []of[turn.Load]
	runs      map[turn.RequestID]of[*turn.Run]
	appends   []of[turn.Append]
	reads     []of[wakeup.Read]
	fences    []of[turn.ReadFence]
	stops     []of[turn.Stop]
	tests     []region.TestJournal
	fetches   []region.FetchKept
	given     int // bytes of the last states
	sends     []of[outbox.Read]
	routes    []of[outbox.Deliver]
}

// of is an output of a shard core.
type of[T any] struct {
	core int
	o    T
}

var self = sharding.NodeID{Addr: "r1:1", UID: 1}

func newScenario() *scenario {
	s := &scenario{now: time.Unix(1000, 0), runs: map[turn.RequestID]of[*turn.Run]{}}
	s.start(cfg(1, 1))
	return s
}

// cfg is the configuration of a region with so many cores, and types of so many shards.
func cfg(cores int, shards uint32) region.Config {
	hosted := func(name string) turn.Type {
		return turn.Type{Desc: sharding.TypeDesc{Type: sharding.EntityType(name), Shards: shards, Commands: []sharding.CommandDesc{
			{Name: "Add"}, {Name: "Get", ReadOnly: true},
		}}, Passivation: passivation.Idle(2 * time.Minute)}
	}
	stores := hosted("T")
	for _, event := range []string{"added", "cleared"} {
		stores.Desc.Writes = append(stores.Desc.Writes, sharding.Form{Kind: sharding.FormOfEvent, Name: event, Version: 1})
	}
	keeps := hosted("V")
	keeps.Desc.Volatile, keeps.KeepOnMoves = true, true
	cfg := region.DefaultConfig(self, "region-1", stores, hosted("U"), keeps)
	cfg.BufferCommands, cfg.BufferBytes, cfg.Turn.TotalCommands = 2, 4096, 3
	if cores > 1 {
		cfg.Turn.TotalCommands = 5 * cores // the least
	}
	cfg.ShardCores = cores
	cfg.LoadInterval = 0 // unless the scenario is about loads
	return cfg
}

func (s *scenario) start(c region.Config) {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	s.control, s.shards = region.NewControlCore(c), nil
	for i := range c.ShardCores {
		s.shards = append(s.shards, region.NewShardCore(c, i))
	}
}

// check verifies the cores and copies of them.
func (s *scenario) check() (findings []string) {
	type core interface {
		Check() error
		AppendState(time.Time, []byte) []byte
	}
	check := func(m, clone core) {
		if err := m.Check(); err != nil {
			findings = append(findings, "CHECK "+err.Error())
		}
		if err := clone.Check(); err != nil {
			findings = append(findings, "CLONE "+err.Error())
		}
		if string(clone.AppendState(s.now, nil)) != string(m.AppendState(s.now, nil)) {
			findings = append(findings, "CLONE differs")
		}
	}
	check(s.control, s.control.Clone())
	for _, m := range s.shards {
		check(m, m.Clone())
	}
	return findings
}

// wakes answers the oldest ReadWakes.
func (s *scenario) wakes(rows []string) []string {
	r := pop(&s.reads)
	page := wakeup.Page{Number: r.o.Number, WakesPage: journal.WakesPage{Now: s.now}}
	for _, text := range rows {
		name, due, _ := strings.Cut(text, "=")
		typ, id, _ := strings.Cut(name, "/")
		e := sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)}
		page.Entries = append(page.Entries, journal.WakeEntry{
			Shard: s.shardOf(e), Entity: e, WakeRef: sharding.WakeRef{Kind: sharding.ReminderWake, Name: "w", Seq: 1},
			Due: s.now.UnixMilli() + int64(number(due)), Input: sharding.Input{Command: "Add"},
		})
	}
	return s.stepShard(r.core, page)
}

func pop[T any](q *[]T) T {
	v := (*q)[0]
	*q = (*q)[1:]
	return v
}

func (s *scenario) command(f []string) []string {
	opt := map[string]string{}
	for _, x := range f[1:] {
		k, v, _ := strings.Cut(x, "=")
		opt[k] = v
	}
	arg := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		return ""
	}
	switch f[0] {
	case "cores":
		s.start(cfg(number(f[1]), 6))
		return nil
	case "loads":
		c := cfg(2, 6)
		c.LoadInterval, c.LoadHalfLife = time.Duration(number(f[1]))*time.Millisecond, time.Second
		c.LoadShards, c.LoadFull, c.JournalPatience = 2, 5, 0
		s.start(c)
		return nil
	case "taken":
		_, term, _ := s.control.Coordinator()
		if t := opt["term"]; t != "" {
			term = sharding.Term(number(t))
		}
		return s.step(region.Replied{From: s.reports.To, Asked: s.reports.Msg, Msg: control.LoadAck{Term: term}})
	case "not-taken":
		return s.step(region.Replied{From: s.reports.To, Asked: s.reports.Msg})
	case "sends": // T/a=U/b: the journal answers the oldest ReadSends: T/a has sent a command to U/b
		r := pop(&s.sends)
		page := outbox.Page{Number: r.o.Number, SendsPage: journal.SendsPage{Now: s.now}}
		for i, text := range f[1:] {
			from, to, _ := strings.Cut(text, "=")
			sender := entityNamed(from)
			page.Entries = append(page.Entries, journal.SendEntry{
				Shard: s.shardOf(sender), Entity: sender, Seq: uint64(i + 1), At: s.now, States: make(journal.SendStates, 1),
				Sends: []sharding.Send{{To: entityNamed(to), Input: sharding.Input{Command: "Add"}}},
			})
		}
		return s.stepShard(r.core, page)
	case "routed": // unavailable: the answer to the oldest Route
		r := pop(&s.routes)
		return s.stepShard(r.core, outbox.Answered{Number: r.o.Number, Reply: sharding.Reject(sharding.Code(f[1]), "by the test")})
	case "feed-router":
		return s.step(region.FeedRouter{})
	case "hold":
		s.holds = true
		return nil
	case "pass":
		s.holds = false
		return s.pass()
	case "coordinators":
		return s.step(region.Coordinators{Addrs: f[1:]})
	case "table":
		return s.watched(control.TableChanged{Delta: s.delta(f[1:])})
	case "full": // as table, and it has all rows of the term
		d := s.delta(f[1:])
		d.Full = true
		return s.watched(control.TableChanged{Delta: d})
	case "quarantined", "quarantined-of-U": // 1 7 a: at version 1.7 of the table, T/a, or U/a, is quarantined
		d := s.delta(f[1:3])
		d.Rows = nil
		t := map[string]int{"quarantined": 0, "quarantined-of-U": 1}[f[0]]
		for _, id := range f[3:] {
			d.Types[t].Quarantined = append(d.Types[t].Quarantined, sharding.Quarantined{ID: sharding.EntityID(id), Why: "by the test"})
		}
		return s.watched(control.TableChanged{Delta: d})
	case "standby":
		return s.watched(control.NotActive{Active: sharding.NodeID{Addr: f[1], UID: 9}, Term: sharding.Term(number(f[2]))})
	case "watch-failed":
		return s.watched(nil)
	case "registered":
		return s.step(region.Replied{From: s.registers.To, Asked: s.registers.Msg, Msg: control.RegisterAck{Term: sharding.Term(number(f[1])), Refusal: strings.Join(f[2:], " ")}})
	case "register-failed":
		return s.step(region.Replied{From: s.registers.To, Asked: s.registers.Msg})
	case "leave-failed":
		return s.step(region.Replied{From: s.leaves.To, Asked: s.leaves.Msg})
	case "journal":
		s.heartbeat = region.JournalHeartbeatRead{OK: f[1] != "unknown", Heartbeat: sharding.JournalHeartbeat{Term: sharding.Term(number(opt["term"])), Cluster: sharding.ClusterID(number(f[1]))}}
		return nil
	case "host", "handoff":
		e := epoch(f[2])
		var table sharding.Version
		if v := epoch(cmp.Or(opt["table"], "0.0")); v != 0 {
			table = sharding.Version{Term: v.Term(), N: uint64(v.Counter())}
		}
		term := e.Term()
		if t := opt["term"]; t != "" {
			term = sharding.Term(number(t))
		}
		if f[0] == "host" {
			m := control.HostShard{Term: term, Shard: shard(f[1]), Epoch: e, Table: table}
			if addr, at, ok := strings.Cut(opt["kept"], "@"); ok {
				m.Previous = control.Previous{Owner: sharding.NodeID{Addr: addr, UID: 2}, Epoch: epoch(at)}
				if addr == "me" {
					m.Previous.Owner = self
				}
			}
			if owner := opt["released"]; owner != "" {
				m.Released = true
				return s.step(region.Received{From: owner, UID: 2, Msg: m})
			}
			return s.step(region.Received{From: "c1", Msg: m})
		}
		m := control.HandOff{Term: term, Shard: shard(f[1]), Epoch: e, Table: table}
		if addr, next, ok := strings.Cut(opt["then"], "@"); ok {
			m.Successor, m.Next = sharding.NodeID{Addr: addr, UID: 2}, epoch(next)
		}
		return s.step(region.Received{From: "c1", Msg: m})
	case "started-at", "refused-at": // r2 T/0 1.2: another region says so
		var m control.Message = control.ShardStarted{Shard: shard(f[2]), Epoch: epoch(f[3])}
		if f[0] == "refused-at" {
			refused := control.HostRefused{Shard: shard(f[2]), Epoch: epoch(f[3]), Above: epoch(f[3])}
			if owner, at, ok := strings.Cut(opt["row"], "@"); ok {
				refused.Row = sharding.Row{Shard: refused.Shard, Owner: sharding.NodeID{Addr: owner, UID: 2}, Epoch: epoch(at), Phase: sharding.Serving}
			}
			m = refused
		}
		return s.step(region.Received{From: f[1], Msg: m})
	case "find": // T/0 T/1
		var m control.FindShards
		for _, name := range f[1:] {
			m.Shards = append(m.Shards, shard(name))
		}
		return s.step(region.Received{From: "g1", Call: 1, Msg: m})
	case "fetched":
		o := pop(&s.fetches)
		in := region.KeptFetched{Shard: o.Shard, Epoch: o.Epoch}
		for _, x := range f[1:] {
			id, state, _ := strings.Cut(x, "=")
			in.Kept = append(in.Kept, turn.Kept{ID: sharding.EntityID(id), Payload: []byte(state)})
		}
		return s.stepShard(s.coreOf(o.Shard), in)
	case "give":
		return s.stepShard(s.coreOf(shard(f[1])), region.GiveKept{Call: 1, Shard: shard(f[1]), Epoch: epoch(f[2]), Stopped: epoch(f[3])})
	case "sent":
		defer func() { s.given = 0 }()
		return s.stepShard(0, region.KeptSent{Bytes: s.given})
	case "claimed":
		c := pop(&s.claims)
		return s.stepShard(s.coreOf(c.Shard), region.Claimed{Shard: c.Shard, Epoch: c.Epoch, Verdict: verdict(f[1]), Fence: sharding.Fence{Epoch: epoch(arg(2))}})
	case "command":
		typ, id, _ := strings.Cut(f[3], "/")
		entity := sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)}
		return s.stepShard(s.coreOf(s.shardOf(entity)), region.Command{Request: turn.RequestID(number(f[1])), Epoch: epoch(f[2]), Env: &sharding.Envelope{
			Entity: entity, Command: f[4], ID: sharding.CommandID("k" + f[1]), Keyed: true, Payload: make([]byte, number(opt["size"])),
		}})
	case "tested":
		p := pop(&s.tests)
		v := sharding.UnknownOutcome
		if f[1] == "ok" {
			v = sharding.RefusedEpoch
		}
		return s.step(region.JournalTested{Path: p.Path, Number: p.Number, Verdict: v})
	case "count-due":
		s.dues = &region.Send{}
		return nil
	case "due":
		_, term, _ := s.control.Coordinator()
		if t := opt["term"]; t != "" {
			term = sharding.Term(number(t))
		}
		return s.step(region.Replied{From: s.dues.To, Asked: s.dues.Msg, Msg: control.DueAck{Term: term, Due: number(f[1])}})
	case "due-failed":
		return s.step(region.Replied{From: s.dues.To, Asked: s.dues.Msg})
	case "ready":
		ready, due := s.control.Ready()
		return []string{fmt.Sprintf("ready %t, %d due", ready, due)}
	case "leave":
		return s.step(region.Leave{})
	case "remaining":
		_, term, _ := s.control.Coordinator()
		if t := opt["term"]; t != "" {
			term = sharding.Term(number(t))
		}
		return s.step(region.Replied{From: s.leaves.To, Asked: control.GracefulShutdown{}, Msg: control.ShutdownAck{Term: term, Remaining: number(f[1])}})
	case "later": // without a tick
		s.now = s.now.Add(time.Duration(number(f[1])) * time.Millisecond)
		return nil
	case "tick":
		s.now = s.now.Add(time.Duration(number(f[1])) * time.Millisecond)
		var lines []string
		for i := range s.shards {
			lines = append(lines, s.stepShard(i, region.Tick{})...)
		}
		return append(lines, s.step(region.Tick{})...)
	case "state":
		var st turn.Stats
		for _, m := range s.shards {
			st.Add(m.Stats())
		}
		return []string{fmt.Sprintf("held %d, %+v", s.control.Held(), st)}
	case "kept":
		var st region.KeptStats
		for _, m := range s.shards {
			st.Add(m.KeptStats())
		}
		return []string{fmt.Sprintf("%+v", st)}
	}
	return s.entity(f, opt, arg)
}

// entity are the answers of the driver to the entity core.
func (s *scenario) entity(f []string, opt map[string]string, arg func(int) string) []string {
	back := func(core int, in turn.Input) []string { return s.stepShard(core, in) }
	fence := sharding.Fence{Epoch: epoch(arg(2))}
	switch f[0] {
	case "loaded":
		l := pop(&s.loads)
		return back(l.core, turn.Loaded{Entity: l.o.Entity, Incarnation: l.o.Incarnation, LastSeq: uint64(number(f[1]))})
	case "done":
		r := s.runs[turn.RequestID(number(f[1]))]
		events := make([]sharding.Event, number(opt["events"]))
		for i := range events {
			events[i].Name = cmp.Or(opt["event"], "added")
		}
		return back(r.core, turn.TurnDone{Incarnation: r.o.Incarnation, Request: r.o.Request,
			Handler: time.Duration(number(opt["ran"])) * time.Millisecond, Events: events, Sends: make([]sharding.Send, number(opt["sends"])), Deleted: opt["delete"] != "", Reply: sharding.Reply{Outcome: sharding.Executed}})
	case "wakes":
		return s.wakes(f[1:])
	case "appended":
		a := pop(&s.appends)
		var seq uint64
		if len(a.o.Append.Records) > 0 {
			seq = a.o.Append.Records[0].Seq
		}
		return back(a.core, turn.Appended{Incarnation: a.o.Incarnation, Seq: seq,
			Verdict: verdict(f[1]), Fence: fence})
	case "fence":
		q := pop(&s.fences)
		return back(q.core, turn.FenceRead{Shard: q.o.Shard, Epoch: q.o.Epoch, Number: q.o.Number, Verdict: verdict(f[1]), Fence: fence})
	case "stopped":
		o := pop(&s.stops)
		in := turn.Stopped{Incarnation: o.o.Incarnation}
		if o.o.Keep {
			in.Kept = &turn.Kept{Payload: []byte(arg(1))}
		}
		return back(o.core, in)
	}
	return []string{"unknown command " + f[0]}
}

func (s *scenario) watched(answer control.Message) []string {
	w := pop(&s.watches)
	return s.step(region.Replied{From: w.To, Asked: w.Msg, Msg: answer})
}

func (s *scenario) coreOf(id sharding.ShardID) int {
	c := cfg(len(s.shards), 1)
	return c.CoreOf(id)
}

// types is the number of shards of each type.
func (s *scenario) types() uint32 {
	if len(s.shards) > 1 {
		return 6
	}
	return 1
}

func (s *scenario) shardOf(e sharding.Entity) sharding.ShardID {
	return sharding.ShardID{Type: e.Type, Index: shardingtest.ShardOf(e.ID, s.types())}
}

// between carries a message between two cores.
func (s *scenario) between(arrive func() []string) []string {
	s.held = append(s.held, arrive)
	if s.holds {
		return nil
	}
	return s.pass()
}

func (s *scenario) pass() (lines []string) {
	for len(s.held) > 0 {
		arrive := pop(&s.held)
		lines = append(lines, arrive()...)
	}
	return lines
}

// step steps the control core.
func (s *scenario) step(in region.ControlInput) []string {
	var lines []string
	for _, o := range s.control.Step(s.now, in, nil) {
		switch o := o.(type) {
		case region.ReadJournalHeartbeat:
			s.heartbeat.Number = o.Number
			lines = append(lines, s.step(s.heartbeat)...)
		case region.Send:
			if _, counts := o.Msg.(control.CountDue); counts && s.dues == nil {
				_, term, _ := s.control.Coordinator()
				lines = append(lines, s.step(region.Replied{From: o.To, Asked: o.Msg, Msg: control.DueAck{Term: term}})...)
				continue
			}
			lines = append(lines, s.perform(o))
		case region.ToCore:
			if len(s.shards) > 1 {
				lines = append(lines, fmt.Sprintf("> core %d %s %+v", o.Core, name(o.Order), o.Order))
			}
			lines = append(lines, s.between(func() []string { return s.stepShard(o.Core, o.Order) })...)
		default:
			lines = append(lines, s.perform(o))
		}
	}
	return lines
}

// stepShard steps a shard core.
func (s *scenario) stepShard(core int, in region.ShardInput) []string {
	var lines []string
	var out region.Outputs
	s.shards[core].Step(s.now, in, &out)
	for _, o := range out.Turn {
		lines = append(lines, s.performTurn(core, o))
	}
	for _, o := range out.Shard {
		lines = append(lines, s.performShard(core, o))
	}
	for _, e := range out.Events {
		if len(s.shards) > 1 {
			lines = append(lines, strings.Replace(fmt.Sprintf("< core %d %s %+v", core, name(e), e), noRow, "", 1))
		}
		lines = append(lines, s.between(func() []string { return s.step(region.FromCore{Core: core, Event: e}) })...)
	}
	return lines
}

// name returns the name of a type of this package.
func name(v any) string {
	text := fmt.Sprintf("%T", v)
	return text[strings.Index(text, ".")+1:]
}

// noRow is the part that most refusals lack.
var noRow = fmt.Sprintf(" Row:%+v", sharding.Row{})

// send shows a control message.
func (s *scenario) send(o region.Send) string {
	fields := strings.Replace(fmt.Sprintf("%+v", o.Msg), noRow, "", 1)
	switch m := o.Msg.(type) {
	case control.WatchTable:
		s.watches = append(s.watches, o)
		if !m.Copy { // a region never asks for one
			fields = fmt.Sprintf("{Version:%+v}", m.Version)
		}
	case control.Register:
		s.registers = o
		fields = fmt.Sprintf("{%s Last:%d}", m.Name, m.Last)
		if m.Journal.Known {
			fields = fmt.Sprintf("{%s Last:%d Journal:%d}", m.Name, m.Last, m.Journal.Cluster)
		}
	case control.GracefulShutdown:
		s.leaves = o
	case control.ShardStopped:
		fields = fmt.Sprintf("{Shard:%s Epoch:%s}", m.Shard, m.Epoch)
		if wrote := slices.Collect(m.Wrote.All()); wrote != nil {
			fields = fmt.Sprintf("{Shard:%s Epoch:%s Wrote:%v}", m.Shard, m.Epoch, wrote)
		}
		if m.Keeps {
			fields += " keeps"
		}
	case control.CountDue:
		s.dues = &o
	case control.ReportLoad:
		s.reports = o
		fields = fmt.Sprintf("%d full %t", m.Number, m.Full)
		for _, l := range m.Shards {
			fields += fmt.Sprintf("\n    %s %v", l.Shard, l.Load)
		}
		fields += fmt.Sprintf("\n    rest %v", m.Rest)
	}
	return fmt.Sprintf("%s to %s %s", control.Name(o.Msg), o.To, fields)
}

// perform shows an output of the control core, and remembers what is to be answered.
func (s *scenario) perform(o region.ControlOutput) string {
	switch o := o.(type) {
	case region.Send:
		return s.send(o)
	case region.TestJournal:
		s.tests = append(s.tests, o)
	case region.Feed:
		return fmt.Sprintf("Feed version %v full %t active %q rows %v", o.Delta.Version, o.Delta.Full, o.Active, o.Delta.Rows)
	case region.JournalChanged:
		return fmt.Sprintf("JournalChanged %s, nothing succeeded for %v", o.State, s.now.Sub(o.Heard))
	}
	return fmt.Sprintf("%s %+v", name(o), o)
}

// performShard shows an output of a shard core.
func (s *scenario) performShard(core int, o region.ShardOutput) string {
	switch o := o.(type) {
	case region.Claim:
		s.claims = append(s.claims, o)
	case region.ReadWakes:
		s.reads = append(s.reads, of[wakeup.Read]{core, o.Read})
		line := "ReadWakes"
		for _, p := range o.Read.Shards {
			line += fmt.Sprintf(" %s after %d", p.Shard, p.After.Due)
		}
		return line
	case region.ReadSends:
		s.sends = append(s.sends, of[outbox.Read]{core, o.Read})
		return fmt.Sprintf("ReadSends {Read:{Number:%d Shards:%+v Limit:%d}}", o.Read.Number, o.Read.Shards, o.Read.Limit)
	case region.Route:
		s.routes = append(s.routes, of[outbox.Deliver]{core, o.Deliver})
		return fmt.Sprintf("Route %s of %s to %s", o.Deliver.Env.Command, o.Deliver.From, o.Deliver.Env.Entity)
	case region.FetchKept:
		s.fetches = append(s.fetches, o)
		return fmt.Sprintf("FetchKept {Shard:%s Epoch:%s Previous:%+v}", o.Shard, o.Epoch, o.Previous)
	case region.Kept:
		s.given = max(s.given, o.Bytes)
		line := fmt.Sprintf("Kept for call %d:", o.Call)
		for _, k := range o.States {
			line += fmt.Sprintf(" %s=%s", k.ID, k.Payload)
		}
		return line
	case region.NotMine:
		return fmt.Sprintf("NotMine %d refused %s knows %s %s %s", o.Request, o.Refused, o.Row.Epoch, o.Row.Phase, o.Row.Owner.Addr)
	case region.Refuse:
		return fmt.Sprintf("Refuse %d %s %s %s", o.Request, o.Reply.Outcome, o.Reply.Code, o.Reply.Message)
	}
	return fmt.Sprintf("%s %+v", name(o), o)
}

// performTurn shows an output of the entity core, indented.
func (s *scenario) performTurn(core int, o turn.Output) string {
	switch o := o.(type) {
	case turn.Load:
		s.loads = append(s.loads, of[turn.Load]{core, o})
		if o.Kept != nil {
			return fmt.Sprintf("  Load %s at %s with %s", o.Entity, o.Epoch, o.Kept.Payload)
		}
		return fmt.Sprintf("  Load %s at %s", o.Entity, o.Epoch)
	case *turn.Run:
		s.runs[o.Request] = of[*turn.Run]{core, o}
		return fmt.Sprintf("  Run %d %s", o.Request, o.Entity)
	case turn.Append:
		s.appends = append(s.appends, of[turn.Append]{core, o})
		if len(o.Append.Records) == 0 {
			return fmt.Sprintf("  Append %s at %s, fired %s", o.Append.Entity, o.Append.Epoch, o.Append.Fired[0].Name)
		}
		return fmt.Sprintf("  Append %s at %s from %d", o.Append.Entity, o.Append.Epoch, o.Append.Records[0].Seq)
	case turn.ReadFence:
		s.fences = append(s.fences, of[turn.ReadFence]{core, o})
		return fmt.Sprintf("  ReadFence %s at %s", o.Shard, o.Epoch)
	case turn.Stop:
		s.stops = append(s.stops, of[turn.Stop]{core, o})
		return fmt.Sprintf("  Stop %s %s", o.Entity, o.Reason)
	case *turn.UnwatchedDone:
		return fmt.Sprintf("  UnwatchedDone %+v", *o)
	case *turn.Answer:
		return strings.TrimRight(fmt.Sprintf("  Answer %d %s %s %s", o.Request, o.Reply.Outcome, o.Reply.Code, o.Reply.Message), " ")
	}
	return fmt.Sprintf("  %s %+v", name(o), o)
}

func (s *scenario) delta(f []string) sharding.TableDelta {
	d := sharding.TableDelta{Version: sharding.Version{Term: sharding.Term(number(f[0])), N: uint64(number(f[1]))}}
	for _, name := range []string{"T", "U", "V"} {
		d.Types = append(d.Types, sharding.TypeDesc{Type: sharding.EntityType(name), Shards: s.types()})
	}
	for _, x := range f[2:] {
		id, row, _ := strings.Cut(x, "=")
		p := strings.Split(row, ":")
		owner := sharding.NodeID{Addr: p[2], UID: 2}
		switch p[2] {
		case "me":
			owner = self
		case "nobody":
			owner = sharding.NodeID{}
		}
		d.Rows = append(d.Rows, sharding.Row{Shard: shard(id), Epoch: epoch(p[0]), Owner: owner,
			Phase: map[string]sharding.Phase{"starting": sharding.Starting, "serving": sharding.Serving, "handing-off": sharding.HandingOff}[p[1]]})
	}
	return d
}

func entityNamed(s string) sharding.Entity {
	typ, id, _ := strings.Cut(s, "/")
	return sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)}
}

func shard(s string) sharding.ShardID {
	typ, i, _ := strings.Cut(s, "/")
	return sharding.ShardID{Type: sharding.EntityType(typ), Index: uint32(number(i))}
}

func epoch(s string) sharding.Epoch {
	term, counter, _ := strings.Cut(s, ".")
	return sharding.MakeEpoch(sharding.Term(number(term)), uint32(number(counter)))
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func verdict(s string) sharding.Verdict {
	return map[string]sharding.Verdict{
		"durable": sharding.Durable, "epoch": sharding.RefusedEpoch, "seq": sharding.RefusedSeq,
		"damaged": sharding.RefusedDamaged,
		"full":    sharding.RefusedFull, "unknown": sharding.UnknownOutcome,
	}[s]
}

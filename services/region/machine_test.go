package region_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/scenariotest"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// TestScenarios runs the scenarios. Shards are the only ones of the types T and U;
// epochs are written term.counter. The commands:
//
//	coordinators ADDR…                    where coordinators may be
//	table TERM N [SHARD=EPOCH:PHASE:OWNER…]  the oldest Watch is answered
//	standby ADDR TERM | watch-failed      likewise
//	registered TERM [refusal]             answers the last Register
//	journal CLUSTER|unknown [term=N]      answers every ReadSign from now on; TERM is that of the sign
//	host SHARD EPOCH [term=N]             HostShard from c1; the term is the epoch's
//	handoff SHARD EPOCH [term=N]
//	claimed VERDICT [EPOCH]               answers the oldest Claim; EPOCH is the stored one
//	command R EPOCH TYPE/ID CMD [size=N]
//	loaded SEQ | done R [events=N] | appended VERDICT [EPOCH] | fence VERDICT [EPOCH] | stopped
//	probed ok|lost                        answers the oldest ProbeJournal
//	leave | remaining N [term=N] | tick MS
//	state                                 counts
func TestScenarios(t *testing.T) { scenariotest.Run(t, play) }

// play starts a scenario.
func play(*testing.T) scenariotest.Play {
	s := newScenario()
	return func(commands []string) (trace []string) {
		for _, c := range commands {
			trace = append(trace, s.command(strings.Fields(c))...)
			if err := s.m.Check(); err != nil {
				trace = append(trace, "CHECK "+err.Error())
			}
			c := s.m.Clone()
			if err := c.Check(); err != nil {
				trace = append(trace, "CLONE "+err.Error())
			}
			if string(c.AppendState(s.now, nil)) != string(s.m.AppendState(s.now, nil)) {
				trace = append(trace, "CLONE differs")
			}
		}
		return trace
	}
}

type scenario struct {
	m       *region.Machine
	now     time.Time
	watches []region.Send
	sign    region.SignRead // answers every ReadSign
	asked   control.Message // the last Register
	claims  []region.Claim
	loads   []turn.Load
	runs    map[turn.RequestID]*turn.Run
	appends []turn.Append
	fences  []turn.ReadFence
	stops   []turn.Stop
	probes  []region.ProbeJournal
}

var self = sharding.NodeID{Addr: "r1:1", UID: 1}

func newScenario() *scenario {
	hosted := func(name string) turn.Type {
		return turn.Type{Desc: sharding.TypeDesc{Type: sharding.EntityType(name), Shards: 1, Commands: []sharding.CommandDesc{
			{Name: "Add"}, {Name: "Get", ReadOnly: true},
		}}, PassivateAfter: 2 * time.Minute}
	}
	cfg := region.DefaultConfig(self, "region-1", hosted("T"), hosted("U"))
	cfg.BufferCommands, cfg.BufferBytes, cfg.Turn.TotalCommands = 2, 4096, 3
	return &scenario{m: region.New(cfg), now: time.Unix(1000, 0), runs: map[turn.RequestID]*turn.Run{}}
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
	case "coordinators":
		return s.step(region.Coordinators{Addrs: f[1:]})
	case "table":
		return s.watched(control.TableChanged{Delta: delta(f[1:])})
	case "standby":
		return s.watched(control.NotActive{Active: sharding.NodeID{Addr: f[1], UID: 9}, Term: sharding.Term(number(f[2]))})
	case "watch-failed":
		return s.watched(nil)
	case "registered":
		return s.step(region.Replied{From: "c", Asked: s.asked, Msg: control.RegisterAck{Term: sharding.Term(number(f[1])), Refusal: strings.Join(f[2:], " ")}})
	case "journal":
		s.sign = region.SignRead{OK: f[1] != "unknown", Sign: sharding.Sign{Term: sharding.Term(number(opt["term"])), Cluster: sharding.ClusterID(number(f[1]))}}
		return nil
	case "host", "handoff":
		e := epoch(f[2])
		term := e.Term()
		if t := opt["term"]; t != "" {
			term = sharding.Term(number(t))
		}
		if f[0] == "host" {
			return s.step(region.Received{From: "c1", Msg: control.HostShard{Term: term, Shard: shard(f[1]), Epoch: e}})
		}
		return s.step(region.Received{From: "c1", Msg: control.HandOff{Term: term, Shard: shard(f[1]), Epoch: e}})
	case "claimed":
		c := pop(&s.claims)
		return s.step(region.Claimed{Shard: c.Shard, Epoch: c.Epoch, Verdict: verdict(f[1]), Fence: sharding.Fence{Epoch: epoch(arg(2))}})
	case "command":
		typ, id, _ := strings.Cut(f[3], "/")
		return s.step(region.Command{Request: turn.RequestID(number(f[1])), Epoch: epoch(f[2]), Env: &sharding.Envelope{
			Entity:  sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)},
			Command: f[4], ID: sharding.CommandID("k" + f[1]), Keyed: true, Payload: make([]byte, number(opt["size"])),
		}})
	case "probed":
		p := pop(&s.probes)
		v := sharding.UnknownOutcome
		if f[1] == "ok" {
			v = sharding.RefusedEpoch
		}
		return s.step(region.Probed{Path: p.Path, Number: p.Number, Verdict: v})
	case "leave":
		return s.step(region.Leave{})
	case "remaining":
		_, term, _ := s.m.Coordinator()
		if t := opt["term"]; t != "" {
			term = sharding.Term(number(t))
		}
		return s.step(region.Replied{From: "c", Asked: control.GracefulShutdown{}, Msg: control.ShutdownAck{Term: term, Remaining: number(f[1])}})
	case "tick":
		s.now = s.now.Add(time.Duration(number(f[1])) * time.Millisecond)
		return s.step(region.Tick{})
	case "state":
		return []string{fmt.Sprintf("held %d, %+v", s.m.Held(), s.m.Stats())}
	}
	return s.entity(f, opt, arg)
}

// entity are the answers of the driver to the entity core.
func (s *scenario) entity(f []string, opt map[string]string, arg func(int) string) []string {
	back := func(in turn.Input) []string { return s.step(region.Turn{Input: in}) }
	fence := sharding.Fence{Epoch: epoch(arg(2))}
	switch f[0] {
	case "loaded":
		l := pop(&s.loads)
		return back(turn.Loaded{Entity: l.Entity, Incarnation: l.Incarnation, LastSeq: uint64(number(f[1]))})
	case "done":
		r := s.runs[turn.RequestID(number(f[1]))]
		return back(turn.TurnDone{Incarnation: r.Incarnation, Request: r.Request,
			Events: make([]sharding.Event, number(opt["events"])), Reply: sharding.Reply{Outcome: sharding.OK}})
	case "appended":
		a := pop(&s.appends)
		return back(turn.Appended{Incarnation: a.Incarnation, Seq: a.Append.Records[0].Seq,
			Verdict: verdict(f[1]), Fence: fence})
	case "fence":
		q := pop(&s.fences)
		return back(turn.FenceRead{Shard: q.Shard, Epoch: q.Epoch, Number: q.Number, Verdict: verdict(f[1]), Fence: fence})
	case "stopped":
		o := pop(&s.stops)
		return back(turn.Stopped{Incarnation: o.Incarnation})
	}
	return []string{"unknown command " + f[0]}
}

func (s *scenario) watched(answer control.Message) []string {
	w := pop(&s.watches)
	return s.step(region.Replied{From: w.To, Asked: w.Msg, Msg: answer})
}

func (s *scenario) step(in region.Input) []string {
	var lines []string
	for _, o := range s.m.Step(s.now, in, nil) {
		if r, ok := o.(region.ReadSign); ok {
			s.sign.Number = r.Number
			lines = append(lines, s.step(s.sign)...)
			continue
		}
		lines = append(lines, s.perform(o))
	}
	return lines
}

// send shows a control message.
func (s *scenario) send(o region.Send) string {
	fields := fmt.Sprintf("%+v", o.Msg)
	switch m := o.Msg.(type) {
	case control.WatchTable:
		s.watches = append(s.watches, o)
	case control.Register:
		s.asked = m
		fields = fmt.Sprintf("{%s Last:%d}", m.Name, m.Last)
		if m.Journal.Known {
			fields = fmt.Sprintf("{%s Last:%d Journal:%d}", m.Name, m.Last, m.Journal.Cluster)
		}
	}
	return fmt.Sprintf("%s to %s %s", control.Name(o.Msg), o.To, fields)
}

// perform shows an output, those of the entity core indented, and remembers what
// is to be answered.
func (s *scenario) perform(o region.Output) string {
	switch o := o.(type) {
	case region.Send:
		return s.send(o)
	case region.Claim:
		s.claims = append(s.claims, o)
	case region.ProbeJournal:
		s.probes = append(s.probes, o)
	case region.JournalChanged:
		return fmt.Sprintf("JournalChanged %s, nothing succeeded for %v", o.State, s.now.Sub(o.Heard))
	case region.NotMine:
		return fmt.Sprintf("NotMine %d refused %s knows %s %s %s", o.Request, o.Refused, o.Row.Epoch, o.Row.Phase, o.Row.Owner.Addr)
	case region.Refuse:
		return fmt.Sprintf("Refuse %d %s %s %s", o.Request, o.Reply.Outcome, o.Reply.Code, o.Reply.Message)
	case turn.Load:
		s.loads = append(s.loads, o)
		return fmt.Sprintf("  Load %s at %s", o.Entity, o.Epoch)
	case *turn.Run:
		s.runs[o.Request] = o
		return fmt.Sprintf("  Run %d %s", o.Request, o.Entity)
	case turn.Append:
		s.appends = append(s.appends, o)
		return fmt.Sprintf("  Append %s at %s from %d", o.Append.Entity, o.Append.Epoch, o.Append.Records[0].Seq)
	case turn.ReadFence:
		s.fences = append(s.fences, o)
		return fmt.Sprintf("  ReadFence %s at %s", o.Shard, o.Epoch)
	case turn.Stop:
		s.stops = append(s.stops, o)
		return fmt.Sprintf("  Stop %s %s", o.Entity, o.Reason)
	case *turn.Answer:
		return strings.TrimRight(fmt.Sprintf("  Answer %d %s %s %s", o.Request, o.Reply.Outcome, o.Reply.Code, o.Reply.Message), " ")
	}
	text := fmt.Sprintf("%T %+v", o, o)
	if other, ok := strings.CutPrefix(text, "turn."); ok {
		return "  " + other
	}
	return strings.TrimPrefix(text, "region.")
}

func delta(f []string) sharding.TableDelta {
	d := sharding.TableDelta{Version: sharding.Version{Term: sharding.Term(number(f[0])), N: uint64(number(f[1]))}, Full: true}
	for _, name := range []string{"T", "U"} {
		d.Types = append(d.Types, sharding.TypeDesc{Type: sharding.EntityType(name), Shards: 1})
	}
	for _, x := range f[2:] {
		id, row, _ := strings.Cut(x, "=")
		p := strings.Split(row, ":")
		owner := sharding.NodeID{Addr: p[2], UID: 2}
		if p[2] == "me" {
			owner = self
		}
		d.Rows = append(d.Rows, sharding.Row{Shard: shard(id), Epoch: epoch(p[0]), Owner: owner,
			Phase: map[string]sharding.Phase{"starting": sharding.Starting, "serving": sharding.Serving, "handing-off": sharding.HandingOff}[p[1]]})
	}
	return d
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

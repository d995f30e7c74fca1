package router

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/latency"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/scenariotest"
)

// TestScenarios runs the scenarios. The commands are the cases of scenario.do. Types are T
// (one shard, journaled), V (one shard, volatile) and W (four shards), with
// the commands Do, Get (read-only) and New, which only some regions have.
func TestScenarios(t *testing.T) { scenariotest.Run(t, play) }

// play starts a scenario.
func play(t *testing.T) scenariotest.Play {
	s := &scenario{t: t, cfg: DefaultConfig(), now: time.Unix(1_000_000, 0)}
	return func(commands []string) []string {
		s.trace = nil
		for _, c := range commands {
			s.do(c)
		}
		return s.trace
	}
}

// scenario drives one machine by commands.
type scenario struct {
	t        testing.TB
	cfg      Config
	m        *Machine
	now      time.Time
	waited   time.Duration
	within   bool   // how long a region has for an answer is part of the trace
	watching bool   // polls are part of the trace, and answered by commands only
	polled   string // the address polled last, if polls are not part of the trace
	trace    []string
}

// do runs one command. Arguments in brackets may be left out.
func (s *scenario) do(line string) {
	word := strings.Fields(line)
	arg := func(i int) string {
		if i < len(word) {
			return word[i]
		}
		return ""
	}
	switch word[0] {
	case "config": // waiting=2 total=3 bytes=300 total-bytes=500: limits; share=50: of deferred commands, in percent; cards: to coordinators; region: as in regions
		s.config(word[1:])
	case "show-watch": // polls are part of the trace from here on
		s.watching = true
	case "coordinators": // c1 c2 [regions r1 r2]
		addrs, regions, _ := strings.Cut(strings.TrimPrefix(line, "coordinators"), "regions")
		s.step(Coordinators{Addrs: strings.Fields(addrs), Regions: strings.Fields(regions)})
	case "table": // c1 1.2 [T/0 1.1 serving r1, …]: from, version, rows
		_, rows, _ := strings.Cut(line, arg(2))
		v := s.version(arg(2))
		s.step(changed(arg(1), sharding.TableDelta{Version: v, Rows: s.rows(rows), Types: testTypes()}))
	case "full": // c1 2.1 [T/0 1.1 serving r1, …]: as table, and it has all rows of the term
		_, rows, _ := strings.Cut(line, arg(2))
		s.step(changed(arg(1), sharding.TableDelta{Version: s.version(arg(2)), Full: true, Rows: s.rows(rows), Types: testTypes()}))
	case "fed": // c1|- 1.2 [T/0 1.1 serving r1, …]: active coordinator, version, rows
		_, rows, _ := strings.Cut(line, arg(2))
		s.step(TableChange{Active: strings.Trim(arg(1), "-"), Delta: sharding.TableDelta{Version: s.version(arg(2)), Rows: s.rows(rows), Types: testTypes()}})
	case "stop":
		s.step(Stop{})
	case "turned-away": // 3
		s.step(TurnedAway{Commands: int(s.number(arg(1)))})
	case "unhosted": // c1 1.2 r9: a table where no region hosts type T, r9 was the last
		types := testTypes()
		types[0].Unhosted, types[0].LastHost = true, arg(3)
		s.step(changed(arg(1), sharding.TableDelta{Version: s.version(arg(2)), Types: types}))
	case "rule": // c1 1.2 - 1: a table where part 1 of an id of type W, cut at "-", is hashed
		types := testTypes()
		types[2].Rule = sharding.ShardRule{Separator: arg(3), Part: int(s.number(arg(4)))}
		s.step(changed(arg(1), sharding.TableDelta{Version: s.version(arg(2)), Types: types}))
	case "untyped": // c1 1.1: a table in which no type is declared yet
		s.step(changed(arg(1), sharding.TableDelta{Version: s.version(arg(2))}))
	case "standby": // c1 3 [c2]: c1 is not active, in term 3 c2 is
		s.step(watched(arg(1), control.NotActive{Term: sharding.Term(s.number(arg(2))), Active: node(arg(3))}))
	case "unwatched": // c1: a poll failed
		s.step(watched(arg(1), nil))
	case "found": // r1 [T/0 1.2 serving r2, …]: the answer of a region about its shards
		_, rows, _ := strings.Cut(line, arg(1))
		s.step(Replied{From: arg(1), Asked: control.FindShards{}, Msg: control.ShardsFound{Rows: s.rows(rows)}})
	case "unfound": // r1: a region does not answer that
		s.step(Replied{From: arg(1), Asked: control.FindShards{}})
	case "up": // r1 [2]: a link is open, its number
		s.step(LinkUp{Region: node(arg(1)), Link: s.number(arg(2))})
	case "down": // r1 [2]
		s.step(LinkDown{Region: node(arg(1)), Link: s.number(arg(2))})
	case "submit": // 1 T/x Do [key=k] [timeout=1s] [chain=T/y] [size=200]
		env := s.envelope(word)
		s.step(Submit{Request: RequestID(s.number(arg(1))), Env: &env})
	case "read": // like submit, by a sender that relies on it to change nothing
		env := s.envelope(word)
		s.step(Submit{Request: RequestID(s.number(arg(1))), Env: &env, ReadOnly: true})
	case "answer": // 1 executed | 1 not_applied unavailable | 1 unknown internal
		s.step(Answer{Attempt: Attempt(s.number(arg(1))), Reply: s.reply(arg(2), arg(3))})
	case "notmine": // 1 1.1 [T/0 1.2 serving r2]: attempt, refused epoch, row
		in := NotMine{Attempt: Attempt(s.number(arg(1))), Refused: s.epoch(arg(2))}
		if len(word) > 3 {
			in.Row = s.rows(strings.Join(word[3:], " "))[0]
		}
		s.step(in)
	case "sendfailed": // 1
		s.step(SendFailed{Attempt: Attempt(s.number(arg(1)))})
	case "cancel": // 1
		s.step(Cancel{Request: RequestID(s.number(arg(1)))})
	case "wait": // 300ms: with a tick every 20 ms
		s.wait(arg(1))
	case "stats":
		s.trace = append(s.trace, fmt.Sprintf("%+v", s.machine().Stats()))
	default:
		s.t.Fatalf("unknown command %q", line)
	}
}

func (s *scenario) machine() *Machine {
	if s.m == nil {
		if err := s.cfg.Validate(); err != nil {
			s.t.Fatal(err)
		}
		s.m = New(s.cfg)
	}
	return s.m
}

func (s *scenario) step(in Input) {
	s.t.Helper()
	prefix := ""
	if s.waited > 0 {
		prefix = fmt.Sprintf("@%v ", s.waited)
	}
	for _, o := range s.machine().Step(s.now, in, nil) {
		if w, ok := o.(Send); ok && !s.watching {
			if _, poll := w.Msg.(control.WatchTable); poll {
				s.polled = w.To
				continue
			}
		}
		if f, ok := o.(Finish); ok {
			s.m.Step(s.now, Delivered{Bytes: f.Held}, nil)
		}
		line := prefix + describe(o)
		if c, ok := o.(SendCommand); ok && s.within {
			line += fmt.Sprintf(" within %v", c.Env.Deadline.Sub(s.now))
		}
		s.trace = append(s.trace, line)
	}
	if err := s.m.Check(); err != nil {
		s.trace = append(s.trace, fmt.Sprintf("after %T%+v: %v", in, in, err))
	}
}

// watched returns the answer to a watch; changed returns one with a table.
func watched(from string, answer control.Message) Replied {
	return Replied{From: from, Asked: control.WatchTable{}, Msg: answer}
}

func changed(from string, d sharding.TableDelta) Replied {
	return watched(from, control.TableChanged{Delta: d})
}

func (s *scenario) wait(d string) {
	total, err := time.ParseDuration(d)
	if err != nil {
		s.t.Fatal(err)
	}
	for s.waited = 20 * time.Millisecond; s.waited <= total; s.waited += 20 * time.Millisecond {
		s.now = s.now.Add(20 * time.Millisecond)
		if to, _ := s.m.watch.Active(); !s.watching && to == s.polled && s.waited%time.Second == 0 {
			s.step(changed(to, sharding.TableDelta{Version: s.m.Table().Version()}))
		}
		s.step(Tick{})
	}
	s.waited = 0
}

// describe returns an output in the language of the scenarios.
func describe(o Output) string {
	switch o := o.(type) {
	case SendCommand:
		s := fmt.Sprintf("send %d: %s %s to %s %s %s", o.Attempt, o.Env.ID, o.Env.Command, o.Region.Addr, o.Shard, o.Epoch)
		if o.Link != 0 {
			s += fmt.Sprintf(" link %d", o.Link)
		}
		return s
	case Finish:
		s := fmt.Sprintf("finish %d: %s", o.Request, o.Reply.Outcome)
		if o.Reply.Code != "" {
			s += fmt.Sprintf(" %s %q", o.Reply.Code, o.Reply.Message)
		}
		if o.Attempts > 0 {
			s += fmt.Sprintf(", attempts %d", o.Attempts)
		}
		if !o.Region.IsZero() {
			s += ", by " + o.Region.Addr
		}
		if o.RetryAfter > 0 {
			s += fmt.Sprintf(", retry after %d", o.RetryAfter)
		}
		return s
	case Connect:
		return "connect " + o.Region.Addr
	case Disconnect:
		return "disconnect " + o.Region.Addr
	case Send:
		if w, ok := o.Msg.(control.WatchTable); ok {
			s := fmt.Sprintf("watch %s %d.%d", o.To, w.Version.Term, w.Version.N)
			if w.Copy {
				s += " copy"
			}
			if c := w.Card; c.Span > 0 {
				var h latency.Histogram
				h.Merge(c.Latencies)
				s += fmt.Sprintf(" card of %v: %d commands, %d refused, %d latencies, p99 %v", c.Span, c.Commands, c.Refused, h.Count(), h.Percentile(99))
			}
			return s
		}
		if f, ok := o.Msg.(control.FindShards); ok {
			return fmt.Sprintf("find %s %v", o.To, f.Shards)
		}
		about := o.Msg.About()
		s := fmt.Sprintf("home %s %s", o.To, about.Shard)
		if about.Epoch != 0 {
			s += " refused " + about.Epoch.String()
		}
		return s
	}
	return fmt.Sprintf("%T%+v", o, o)
}

func testTypes() []sharding.TypeDesc {
	commands := []sharding.CommandDesc{{Name: "Do"}, {Name: "Get", ReadOnly: true}, {Name: "New"}}
	return []sharding.TypeDesc{
		{Type: "T", Shards: 1, Commands: commands},
		{Type: "V", Shards: 1, Volatile: true, Commands: commands},
		{Type: "W", Shards: 4, Commands: commands},
	}
}

// node returns the region or coordinator at an address; "": none.
func node(addr string) sharding.NodeID {
	if addr == "" {
		return sharding.NodeID{}
	}
	return sharding.NodeID{Addr: addr, UID: 1}
}

func (s *scenario) config(settings []string) {
	for _, word := range settings {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "share":
			s.cfg.DeferredShare = float64(s.number(value)) / 100
			continue
		case "within":
			s.within = true
			continue
		case "cards":
			s.cfg.Management = "m"
			continue
		case "region":
			s.cfg.Process, s.cfg.Fed, s.cfg.LinkIdle, s.cfg.AnswerReserve = "region", true, 61*time.Second, 0
			continue
		}
		n := int(s.number(value))
		switch name {
		case "waiting":
			s.cfg.MaxWaiting = n
		case "bytes":
			s.cfg.MaxWaitingBytes = setting.Bytes(n)
		case "total":
			s.cfg.MaxTotal = n
		case "total-bytes":
			s.cfg.MaxTotalBytes = setting.Bytes(n)
		default:
			s.t.Fatalf("unknown limit %q", name)
		}
	}
}

func (s *scenario) envelope(word []string) sharding.Envelope {
	typ, id, _ := strings.Cut(word[2], "/")
	env := sharding.Envelope{
		Entity:  sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)},
		Command: word[3],
		ID:      sharding.CommandID("#" + word[1]),
	}
	for _, option := range word[4:] {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "key":
			env.Keyed, env.ID = true, sharding.CommandID(value)
		case "timeout":
			d, err := time.ParseDuration(value)
			if err != nil {
				s.t.Fatal(err)
			}
			env.Deadline = s.now.Add(d)
		case "chain":
			typ, id, _ := strings.Cut(value, "/")
			env.Chain = append(env.Chain, sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)})
		case "size":
			env.Payload = make([]byte, int(s.number(value))-env.Size())
		default:
			s.t.Fatalf("unknown option %q", option)
		}
	}
	return env
}

func (s *scenario) reply(outcome, code string) sharding.Reply {
	reply := sharding.Reply{Code: sharding.Code(code)}
	if code != "" {
		reply.Message = "as the region says"
	}
	for _, o := range []sharding.Outcome{sharding.Executed, sharding.NotApplied, sharding.Unknown} {
		if o.String() == outcome {
			reply.Outcome = o
		}
	}
	return reply
}

func (s *scenario) rows(text string) []sharding.Row {
	var rows []sharding.Row
	for _, one := range strings.Split(text, ",") {
		f := strings.Fields(one)
		if len(f) == 0 {
			continue
		}
		typ, index, _ := strings.Cut(f[0], "/")
		row := sharding.Row{
			Shard: sharding.ShardID{Type: sharding.EntityType(typ), Index: uint32(s.number(index))},
			Epoch: s.epoch(f[1]),
			Owner: node(f[3]),
		}
		for p := sharding.Starting; p <= sharding.HandingOff; p++ {
			if p.String() == f[2] {
				row.Phase = p
			}
		}
		if f[3] == sharding.Unreadable.String() {
			row.Owner, row.Reason = sharding.NodeID{}, sharding.Unreadable
		}
		rows = append(rows, row)
	}
	return rows
}

func (s *scenario) number(text string) uint64 {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *scenario) version(text string) sharding.Version {
	term, n, _ := strings.Cut(text, ".")
	return sharding.Version{Term: sharding.Term(s.number(term)), N: s.number(n)}
}

func (s *scenario) epoch(text string) sharding.Epoch {
	v := s.version(text)
	return sharding.MakeEpoch(v.Term, uint32(v.N))
}

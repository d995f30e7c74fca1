package turn_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/scenariotest"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// TestScenarios runs the scenarios. The commands:
//
//	open                              open shard 0 at epoch 1.1
//	remember                          entities are remembered; the first command of a scenario
//	activate [entity=E] [epoch=N]     bring an entity to life
//	deliver R ID CMD [keyed] [payload=P] [tell] [deadline=MS] [entity=E] [chain=E,E…]
//	loaded SEQ [CMDID=reply…]         answer the newest Load (conflict=CMDID, err=TEXT, retry, fresh, life=SEQ, remembered=MS, reminders=N), or nth=N
//	lookedup [CMDID=reply | expired | failed]  answer the newest Lookup; nothing: it is not stored
//	sendread [STATE] [reply-to=CMD] [err=TEXT]  answer the newest ReadSend (pending done refused in-doubt)
//	done R [events=N] [bytes=N] [reply=TEXT] [error=CODE] [reject] [bad] [spoiled] [passivate] [forget] [timer=NAME:CMD:MS]
//	                                  [deleted] the turn deletes its entity
//	                                  [set=NAME:DUE] [remove=NAME] wake-ups; [wake=NAME] the turn of a firing, with R 0
//	fire NAME CMD [seq=N] [number=N] [due=MS] [next=MS] [entity=E] [epoch=N]  a wake-up is due
//	appended VERDICT                  answer the oldest Append (durable epoch seq command wake full damaged format unknown)
//	fence VERDICT                     answer the oldest ReadFence
//	stopped                           answer the newest Stop
//	drain | abort | tick MS           tick lets MS pass first
//	limit COMMANDS BYTES LOADS [reserve=COMMANDS]  for all entities from now on
//	ask R ENTITY CMD [number=N] [read-only] [key=K] [step=NAME] [deadline=MS] [payload=P]  the running turn of request R asks
//	asked N [reply=TEXT] [error=CODE] [reject=CODE] [doubt=CODE]  answer the ask of that number
//	withdraw N                        its turn does not wait any more
//	stats
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
			if err := s.m.Clone().Check(); err != nil {
				trace = append(trace, "CLONE "+err.Error())
			}
			if n := s.m.Stats().Waiting; n != s.waiting {
				trace = append(trace, fmt.Sprintf("ASKS %d wait for AskDone, the machine counts %d", s.waiting, n))
			}
		}
		return trace
	}
}

// TestTimersLeaveNothingBehind: a timer that is replaced in every turn must not
// leave an alarm behind each time.
func TestTimersLeaveNothingBehind(t *testing.T) {
	s := newScenario()
	s.command(strings.Fields("open"))
	s.command(strings.Fields("deliver 1 a Peek"))
	s.command(strings.Fields("loaded 0"))
	s.command(strings.Fields("done 1"))
	size := func() int { return strings.Count(string(s.m.AppendState(s.now, nil)), "alarm") }
	for i := range 5000 {
		s.command(strings.Fields(fmt.Sprintf("deliver %d p%d Peek", i+2, i)))
		s.command(strings.Fields(fmt.Sprintf("done %d timer=t:Add:3600000", i+2)))
	}
	if n := s.m.Alarms(); n > 2048 || size() != 1 {
		t.Errorf("%d alarms, %d of them relevant, after setting one timer 5000 times", n, size())
	}
}

// TestLateTurnKeepsItsCommand: the memory of commands is reused, but not while a
// turn of an ended incarnation may still read it, even if the command ran again
// meanwhile.
func TestLateTurnKeepsItsCommand(t *testing.T) {
	for name, lines := range map[string][]string{
		"turned away": {"abort", "appended durable", "open", "deliver 3 c Peek", "loaded 0", "done 3"},
		"run again":   {"appended unknown", "appended durable", "loaded 1 a=one", "done 2 events=1", "appended durable"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario()
			step := func(line string) {
				s.command(strings.Fields(line))
				if err := s.m.Check(); err != nil {
					t.Fatalf("after %q: %v", line, err)
				}
			}
			for _, line := range []string{"open", "deliver 1 a Add keyed", "loaded 0", "done 1 events=1", "deliver 2 b Add"} {
				step(line)
			}
			late, inc := s.runs[2], s.runs[2].Incarnation
			for _, line := range lines {
				step(line)
			}
			if st := s.m.Stats(); st.Commands > 0 {
				t.Fatalf("%d commands are not answered", st.Commands)
			}
			used := map[*sharding.Envelope]bool{}
			for i := range 10 {
				step(fmt.Sprintf("deliver %d p%d Peek", i+10, i))
				used[s.runs[turn.RequestID(i+10)].Env] = true
				step(fmt.Sprintf("done %d", i+10))
			}
			if late.Env.ID != "b" || late.Incarnation != inc {
				t.Errorf("the late turn of b by %v has become that of %s by %v", inc, late.Env.ID, late.Incarnation)
			}
			if len(used) > 3 {
				t.Errorf("%d envelopes for commands one after the other: none are used again", len(used))
			}
		})
	}
}

// TestAnswersUntilRecycle: the memory of answers is reused after Recycle, and not
// before.
func TestAnswersUntilRecycle(t *testing.T) {
	s := newScenario()
	s.command(strings.Fields("open"))
	env := sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "a"}, ID: "a", Command: "None"}
	var list []*turn.Answer
	used := map[*turn.Answer]bool{}
	for r := range turn.RequestID(10_000) {
		for _, o := range s.m.Step(s.now, turn.Deliver{Request: r, Shard: shard0, Env: &env}, nil) {
			list = append(list, o.(*turn.Answer))
			used[list[len(list)-1]] = true
		}
		if len(list) < 2500 {
			continue
		}
		for i, a := range list {
			if want := r + 1 - turn.RequestID(len(list)-i); a.Request != want || a.Reply.Code != sharding.UnknownCommand {
				t.Fatalf("answer %d has become %+v", want, *a)
			}
		}
		s.m.Recycle()
		list = list[:0]
	}
	if len(used) == 10_000 {
		t.Errorf("no memory was used again")
	}
}

type scenario struct {
	cfg     turn.Config
	m       *turn.Machine
	now     time.Time
	load    turn.Load // the newest
	loads   []turn.Load
	lookup  turn.Lookup
	send    turn.ReadSend
	runs    map[turn.RequestID]*turn.Run
	firings map[string]*turn.Run // by the name of the wake-up
	appends []turn.Append
	fences  []turn.ReadFence
	stop    turn.Stop
	asks    map[uint64]turn.Incarnation
	waiting int // asks without an AskDone
}

func newScenario() *scenario {
	cfg := turn.DefaultConfig(turn.Type{
		Desc: sharding.TypeDesc{Type: "T", Shards: 1, Commands: []sharding.CommandDesc{
			{Name: "Add"}, {Name: "Get", ReadOnly: true}, {Name: "Peek", ReadOnly: true, Stale: true},
		}},
		Passivation: passivation.Idle(2 * time.Minute), SnapshotEvery: 3,
	})
	cfg.MailboxCommands, cfg.SnapshotBytes = 4, 1000
	cfg.HeldBytes, cfg.TotalHeldBytes = 500, 800
	cfg.EntityLoads, cfg.TotalLoads, cfg.RemindersPerEntity = 2, 3, 3
	cfg.TurnSends, cfg.PendingSends = 3, 5
	cfg.AsksPerTurn, cfg.WaitingTurns = 3, 5
	return &scenario{cfg: cfg, m: turn.New(cfg), now: time.Unix(1000, 0), runs: map[turn.RequestID]*turn.Run{}, firings: map[string]*turn.Run{}, asks: map[uint64]turn.Incarnation{}}
}

var shard0 = sharding.ShardID{Type: "T"}

func (s *scenario) command(f []string) []string {
	opt := map[string]string{}
	for _, x := range f[1:] {
		k, v, _ := strings.Cut(x, "=")
		opt[k] = v
	}
	has := func(k string) bool { _, ok := opt[k]; return ok }
	switch f[0] {
	case "open":
		return s.step(turn.Open{Shard: shard0, Epoch: sharding.MakeEpoch(1, 1)})
	case "remember":
		typ := s.cfg.Types[0]
		typ.Remember, typ.SnapshotEvery = true, 0
		s.cfg.Types = []turn.Type{typ}
		s.m = turn.New(s.cfg)
		return nil
	case "keep": // so many events; "keep 0": a version that keeps all
		typ := s.cfg.Types[0]
		typ.KeepEvents, typ.Desc.Writes = int(number(f[1])), nil
		if typ.KeepEvents > 0 {
			typ.Desc.Writes = []sharding.Form{{Kind: sharding.FormOfEvent, Name: "E", Version: 1}, {Kind: sharding.FormOfSnapshot, Version: 1}}
		}
		s.cfg.Types = []turn.Type{typ}
		if err := s.cfg.Validate(); err != nil {
			return []string{err.Error()}
		}
		s.m = turn.New(s.cfg)
		return nil
	case "forms": // of events, of the input of a command, and of answers
		typ := s.cfg.Types[0]
		typ.Desc.Writes = []sharding.Form{
			{Kind: sharding.FormOfEvent, Name: "E", Version: 1},
			{Kind: sharding.FormOfInput, Name: "Add", Version: 1}, {Kind: sharding.FormOfInput, Name: "Got", Version: 1},
		}
		s.cfg.Types = []turn.Type{typ}
		s.m = turn.New(s.cfg)
		return nil
	case "activate":
		in := turn.Activate{Shard: shard0, Epoch: sharding.MakeEpoch(1, 1), Entity: sharding.Entity{Type: "T", ID: sharding.EntityID(cmp.Or(opt["entity"], "a"))}}
		if has("epoch") {
			in.Epoch = sharding.MakeEpoch(1, uint32(number(opt["epoch"])))
		}
		return s.step(in)
	case "deliver":
		r, _ := strconv.Atoi(f[1])
		env := sharding.Envelope{
			Entity: sharding.Entity{Type: "T", ID: "a"}, ID: sharding.CommandID(f[2]), Command: f[3],
			Keyed: has("keyed"), Tell: has("tell"), Payload: []byte(opt["payload"]), Principal: opt["principal"],
		}
		if e := opt["entity"]; e != "" {
			env.Entity.ID = sharding.EntityID(e)
		}
		if d := opt["deadline"]; d != "" {
			env.Deadline = s.now.Add(ms(d))
		}
		if opt["chain"] != "" {
			for _, id := range strings.Split(opt["chain"], ",") {
				env.Chain = append(env.Chain, sharding.Entity{Type: "T", ID: sharding.EntityID(id)})
			}
		}
		return s.step(turn.Deliver{Request: turn.RequestID(r), Shard: shard0, Env: &env})
	case "loaded":
		return s.step(s.loaded(f[1:], opt))
	case "take": // the answer to a send
		in := turn.Fire{Shard: shard0, Epoch: sharding.MakeEpoch(1, 1), Entity: sharding.Entity{Type: "T", ID: "a"}}
		in.Wakeup.Kind, in.Wakeup.Name, in.Wakeup.Input.Command = sharding.SendWake, f[1], f[2]
		in.Wakeup.Seq, in.Wakeup.Number = number(opt["seq"]), number(opt["number"])
		in.Wakeup.Answer = &turn.SendResult{SentAt: time.UnixMilli(int64(number(opt["sent"]))), Reply: sharding.Reply{Outcome: sharding.OK, Payload: []byte(f[1])}}
		return s.step(in)
	case "ended": // a send of a record, of which there are so many
		return s.step(turn.SendsEnded{Shard: shard0, Epoch: sharding.MakeEpoch(1, 1), Entity: sharding.Entity{Type: "T", ID: "a"}, Seqs: slices.Repeat([]uint64{number(opt["seq"])}, int(number(f[1])))})
	case "fire":
		in := turn.Fire{Shard: shard0, Epoch: sharding.MakeEpoch(1, 1), Entity: sharding.Entity{Type: "T", ID: "a"}}
		in.Wakeup.Kind, in.Wakeup.Name, in.Wakeup.Input.Command = sharding.ReminderWake, f[1], f[2]
		in.Wakeup.Seq, in.Wakeup.Number, in.Wakeup.Next = number(opt["seq"]), number(opt["number"]), int64(number(opt["next"]))
		in.Wakeup.Due = int64(number(opt["due"]))
		if e := opt["entity"]; e != "" {
			in.Entity.ID = sharding.EntityID(e)
		}
		if has("epoch") {
			in.Epoch = sharding.MakeEpoch(1, uint32(number(opt["epoch"])))
		}
		return s.step(in)
	case "lookedup":
		in := turn.LookedUp{Incarnation: s.lookup.Incarnation, ID: s.lookup.ID, Failed: has("failed"), Found: has("expired") || has(string(s.lookup.ID))}
		in.Stored = sharding.Stored{Expired: has("expired"), Hash: sharding.CommandHash(opt["principal"], "Add", nil),
			Reply: sharding.Reply{Outcome: sharding.OK, Payload: []byte(opt[string(s.lookup.ID)])}}
		return s.step(in)
	case "sendread":
		in := turn.ReadSendDone{Incarnation: s.send.Incarnation, Request: s.send.Request, Err: opt["err"]}
		in.State = map[string]sharding.SendState{"pending": sharding.SendPending, "done": sharding.SendDone, "refused": sharding.SendRefused, "in-doubt": sharding.SendInDoubt}[f[1]]
		in.Send = sharding.Send{To: sharding.Entity{Type: "T", ID: "b"}, Input: sharding.Input{Command: "Add", Payload: []byte("x")}, ReplyTo: opt["reply-to"]}
		if in.Err != "" {
			in.Code = sharding.Unavailable
		}
		return s.step(in)
	case "done":
		if opt["wake"] == "" && s.runs[turn.RequestID(number(f[1]))] == nil {
			return []string{"no turn of that request"}
		}
		return s.step(s.done(f, opt, has))
	case "appended":
		if len(s.appends) == 0 {
			return []string{"nothing is appended"}
		}
		a := s.appends[0]
		s.appends = s.appends[1:]
		var seq uint64
		if len(a.Append.Records) > 0 {
			seq = a.Append.Records[0].Seq
		}
		return s.step(turn.Appended{Incarnation: a.Incarnation, Seq: seq,
			Verdict: verdict(f[1]), Fence: sharding.Fence{Epoch: sharding.MakeEpoch(2, 1)}, Reason: f[1]})
	case "fence":
		if len(s.fences) == 0 {
			return []string{"no fence is read"}
		}
		q := s.fences[0]
		s.fences = s.fences[1:]
		return s.step(turn.FenceRead{Shard: q.Shard, Epoch: q.Epoch, Number: q.Number,
			Verdict: verdict(f[1]), Fence: sharding.Fence{Epoch: sharding.MakeEpoch(2, 1)}, Reason: f[1]})
	case "stopped":
		return s.step(turn.Stopped{Incarnation: s.stop.Incarnation})
	case "drain":
		return s.step(turn.Drain{Shard: shard0})
	case "abort":
		return s.step(turn.Abort{Shard: shard0})
	case "tick":
		s.now = s.now.Add(ms(f[1]))
		return s.step(turn.Tick{})
	case "limit":
		var l turn.Usage
		if _, err := fmt.Sscan(strings.Join(f[1:4], " "), &l.Commands, &l.Bytes, &l.Loads); err != nil {
			return []string{err.Error()}
		}
		r := turn.Usage{Commands: int(number(opt["reserve"]))}
		s.m.Limit(l, r)
		return nil
	case "ask":
		if opt["wake"] == "" && s.runs[turn.RequestID(number(f[1]))] == nil {
			return []string{"no turn of that request"}
		}
		return s.step(s.ask(f, opt, has))
	case "asked":
		n := number(f[1])
		in := turn.AskAnswered{Incarnation: s.asks[n], Number: n, Reply: sharding.Reply{Outcome: sharding.OK, Payload: []byte(opt["reply"]), Code: sharding.Code(opt["error"])}}
		if has("reject") {
			in.Reply = sharding.Reject(sharding.Code(opt["reject"]), "refused there")
		}
		if has("doubt") {
			in.Reply = sharding.Doubt(sharding.Code(opt["doubt"]), "in doubt there")
		}
		return s.step(in)
	case "withdraw":
		n := number(f[1])
		return s.step(turn.WithdrawAsk{Incarnation: s.asks[n], Number: n})
	case "stats":
		return []string{fmt.Sprintf("%+v", s.m.Stats())}
	}
	return []string{"unknown command " + f[0]}
}

func (s *scenario) loaded(args []string, opt map[string]string) turn.Loaded {
	load := s.load
	if n, err := strconv.Atoi(opt["nth"]); err == nil {
		load = s.loads[n-1]
	}
	in := turn.Loaded{Entity: load.Entity, Incarnation: load.Incarnation, Stored: map[sharding.CommandID]sharding.Stored{}}
	for _, a := range args {
		k, v, found := strings.Cut(a, "=")
		switch {
		case k == "err":
			in.Err, in.Code = v, sharding.DataLoss
		case k == "nth", k == "principal", k == "of":
		case k == "trimmed":
			in.Trimmed = true
		case k == "fresh":
			in.Fresh = true
		case k == "life":
			in.Life = number(v)
		case k == "pending":
			in.Pending = int(number(v))
		case k == "reminders":
			in.Reminders = int(number(v))
		case k == "remembered":
			in.RememberedActivity = int64(number(v))
		case k == "retry":
			in.Retry = true
		case k == "conflict":
			in.Stored[sharding.CommandID(v)] = sharding.Stored{Hash: 1}
		case k == "expired":
			in.Stored[sharding.CommandID(v)] = sharding.Stored{Expired: true}
		case found:
			in.Stored[sharding.CommandID(k)] = sharding.Stored{Hash: sharding.CommandHash(opt["principal"], cmp.Or(opt["of"], "Add"), nil),
				Reply: sharding.Reply{Outcome: sharding.OK, Payload: []byte(v)}}
		default:
			n, _ := strconv.Atoi(a)
			in.LastSeq = uint64(n)
		}
	}
	return in
}

func (s *scenario) ask(f []string, opt map[string]string, has func(string) bool) turn.Ask {
	run := s.runs[turn.RequestID(number(f[1]))]
	if name := opt["wake"]; name != "" {
		run = s.firings[name]
	}
	n := number(opt["number"])
	if n == 0 {
		n = uint64(len(s.asks) + 1)
	}
	s.asks[n] = run.Incarnation
	in := turn.Ask{
		Incarnation: run.Incarnation, Turn: run.Turn, Number: n, Target: sharding.Entity{Type: "T", ID: sharding.EntityID(f[2])}, Command: f[3],
		ReadOnly: has("read-only"), Key: sharding.CommandID(opt["key"]), Step: opt["step"], Payload: []byte(opt["payload"]),
	}
	if d := opt["deadline"]; d != "" {
		in.Deadline = s.now.Add(ms(d))
	}
	return in
}

func (s *scenario) done(f []string, opt map[string]string, has func(string) bool) turn.TurnDone {
	r, _ := strconv.Atoi(f[1])
	run := s.runs[turn.RequestID(r)]
	if name := opt["wake"]; name != "" {
		run = s.firings[name]
	}
	in := turn.TurnDone{Incarnation: run.Incarnation, Request: run.Request,
		Reply:   sharding.Reply{Outcome: sharding.OK, Payload: []byte(opt["reply"]), Code: sharding.Code(opt["error"])},
		Spoiled: has("spoiled"), Passivate: has("passivate"), Deleted: has("deleted"), Forgotten: has("forget")}
	if has("reject") {
		in.Reply = sharding.Reject(cmp.Or(sharding.Code(opt["reject"]), sharding.Internal), "undone")
	}
	if has("bad") {
		in.Reply = sharding.Reject(sharding.InvalidArgument, "unreadable")
	}
	n, _ := strconv.Atoi(opt["events"])
	size, _ := strconv.Atoi(opt["bytes"])
	for range n {
		in.Events = append(in.Events, sharding.Event{Name: "E", Payload: make([]byte, size)})
	}
	in.Sends = make([]sharding.Send, number(opt["sends"]))
	for i := range in.Sends {
		in.Sends[i].Input.Command, in.Sends[i].ReplyTo = opt["send"], opt["reply-to"]
	}
	if name, due, ok := strings.Cut(opt["set"], ":"); ok {
		in.Wakes = append(in.Wakes, sharding.Wake{Kind: sharding.ReminderWake, Name: name, Due: int64(number(due)), Input: sharding.Input{Command: opt["command"]}})
	}
	if name := opt["remove"]; name != "" {
		in.Wakes = append(in.Wakes, sharding.Wake{Kind: sharding.ReminderWake, Name: name})
	}
	if t := opt["timer"]; t != "" {
		p := strings.Split(t, ":")
		in.Timers = []turn.Timer{{Name: p[0], Command: p[1], After: ms(p[2])}}
	}
	return in
}

func (s *scenario) step(in turn.Input) []string {
	var lines []string
	if _, ok := in.(turn.Ask); ok {
		s.waiting++
	}
	for _, o := range s.m.Step(s.now, in, nil) {
		switch o := o.(type) {
		case turn.Load:
			s.load = o
			s.loads = append(s.loads, o)
			line := fmt.Sprintf("Load %s inc %s lookup %v lookup-only %t", o.Entity, o.Incarnation, o.Lookup, o.LookupOnly)
			if o.Background {
				line += " in the background"
			}
			if o.Bare {
				line += " bare"
			}
			lines = append(lines, line)
		case turn.Lookup:
			s.lookup = o
			lines = append(lines, fmt.Sprintf("Lookup %s inc %s %s", o.Entity, o.Incarnation, o.ID))
		case turn.ReadSend:
			s.send = o
			lines = append(lines, fmt.Sprintf("ReadSend %s inc %s request %d: record %d, place %d", o.Entity, o.Incarnation, o.Request, o.Seq, o.Place))
		case *turn.Run:
			line := fmt.Sprintf("Run %s inc %s request %d %s %s", o.Entity, o.Incarnation, o.Request, o.Env.Command, o.Env.ID)
			if o.Fresh {
				line += " fresh"
			}
			if w := o.Wakeup; w != nil {
				run := *o // its memory is reused
				s.firings[w.Name] = &run
				line += fmt.Sprintf(" wakeup %s seq %d number %d", w.Name, w.Seq, w.Number)
			} else {
				s.runs[o.Request] = o
			}
			lines = append(lines, line)
		case turn.Append:
			s.appends = append(s.appends, o)
			line := fmt.Sprintf("Append %s at %s", o.Append.Entity, o.Append.Epoch)
			for _, r := range o.Append.Records {
				line += fmt.Sprintf(" [%d %q %d events]", r.Seq, r.Command, len(r.Events))
				if r.Delete {
					line += " [delete]"
				}
				if r.Operator {
					line += " [operator]"
				}
				for _, w := range r.Wakes {
					if w.Kind == sharding.RememberWake {
						w.Name = "remember"
					}
					line += fmt.Sprintf(" [%s at %d]", w.Name, w.Due)
				}
				if n := len(r.Sends); n > 0 {
					line += fmt.Sprintf(" [%d sends]", n)
					if to := r.Sends[0].ReplyTo; to != "" {
						line += " [answer to " + to + "]"
					}
				}
			}
			for _, d := range o.Append.Delivered {
				line += fmt.Sprintf(" [seq %d sends %v %s once %t]", d.Seq, d.Sends, d.As, d.Once)
			}
			for _, w := range o.Append.Fired {
				line += fmt.Sprintf(" [%s seq %d number %d fired, next %d]", w.Name, w.Seq, w.Number, w.Next)
			}
			lines = append(lines, line)
		case turn.ReadFence:
			s.fences = append(s.fences, o)
			lines = append(lines, fmt.Sprintf("ReadFence %s number %d", o.Shard, o.Number))
		case *turn.Answer:
			lines = append(lines, strings.TrimRight(fmt.Sprintf("Answer %d %s %s %s%s", o.Request, o.Reply.Outcome, o.Reply.Code, o.Reply.Payload, o.Reply.Message), " "))
		case turn.SendAsk:
			line := fmt.Sprintf("SendAsk %d to %s %s %s keyed=%t chain %v, %s left", o.Number, o.Env.Entity, o.Env.Command, o.Env.ID, o.Env.Keyed, o.Env.Chain, o.Env.Deadline.Sub(s.now))
			lines = append(lines, line)
		case turn.SendProbe:
			lines = append(lines, fmt.Sprintf("SendProbe to %s chain %v", o.Env.Entity, o.Env.Chain))
		case turn.AskDone:
			s.waiting--
			lines = append(lines, strings.TrimRight(fmt.Sprintf("AskDone %d %s %s %s%s", o.Number, o.Reply.Outcome, o.Reply.Code, o.Reply.Payload, o.Reply.Message), " "))
		case turn.TellDone:
			line := fmt.Sprintf("TellDone %s %s timer=%t %s %s %s", o.Entity, o.Command, o.Timer, o.Reply.Outcome, o.Reply.Code, o.Reply.Message)
			if o.Wakeup != (sharding.WakeRef{}) {
				line = fmt.Sprintf("TellDone %s %s wakeup=%s again=%t %s %s %s", o.Entity, o.Command, o.Wakeup.Name, o.Again, o.Reply.Outcome, o.Reply.Code, o.Reply.Message)
			}
			lines = append(lines, strings.TrimRight(line, " "))
		case turn.Stop:
			s.stop = o
			lines = append(lines, fmt.Sprintf("Stop %s inc %s %s", o.Entity, o.Incarnation, o.Reason))
		default:
			lines = append(lines, strings.TrimPrefix(fmt.Sprintf("%T %+v", o, o), "turn."))
		}
	}
	for _, e := range s.m.ShardEvents() {
		line := strings.TrimPrefix(fmt.Sprintf("%T %+v", e, e), "turn.")
		switch e := e.(type) {
		case turn.FiringEnded:
			line = strings.TrimRight(fmt.Sprintf("FiringEnded %s at %s %s seq %d number %d: %s %s %s", e.Entity, e.Epoch, e.Ref.Name, e.Ref.Seq, e.Ref.Number, e.End, e.Code, e.Message), " ")
		case turn.SendsStored:
			line = fmt.Sprintf("SendsStored %s: %d records", e.Entity, len(e.Records))
		case turn.ActivationEnded:
			line = strings.TrimRight(fmt.Sprintf("ActivationEnded %s at %s: %s %s %s", e.Entity, e.Epoch, e.End, e.Code, e.Message), " ")
		case turn.WakesChanged:
			line = fmt.Sprintf("WakesChanged %s: %d fired, %d records", e.Entity, len(e.Fired), len(e.Records))
		}
		if d, ok := e.(turn.Drained); ok && len(d.Wrote) > 0 {
			line = fmt.Sprintf("Drained %s at %s wrote forms %v", d.Shard, d.Epoch, slices.Collect(d.Wrote.All()))
		}
		lines = append(lines, strings.Replace(line, " Wrote: Kept:[]}", "}", 1)) // no type here has forms, or keeps states
	}
	return lines
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

func ms(s string) time.Duration {
	n, _ := strconv.Atoi(s)
	return time.Duration(n) * time.Millisecond
}

func verdict(s string) sharding.Verdict {
	return map[string]sharding.Verdict{
		"durable": sharding.Durable, "epoch": sharding.RefusedEpoch, "seq": sharding.RefusedSeq,
		"command": sharding.RefusedCommand, "wake": sharding.RefusedWake, "full": sharding.RefusedFull, "large": sharding.RefusedTooLarge, "damaged": sharding.RefusedDamaged, "format": sharding.RefusedFormat, "unknown": sharding.UnknownOutcome,
	}[s]
}

// TestKeepEventsNeedsSnapshots: nothing is trimmed without what takes its place.
func TestKeepEventsNeedsSnapshots(t *testing.T) {
	for _, c := range []struct {
		keep, every int
		volatile    bool
		ok          bool
	}{
		{0, 0, false, true}, {1, 1, false, true}, {1 << 40, turn.MaxTrimmedEvery, false, true},
		{-1, 5, false, false}, {1, 0, false, false}, {1, turn.MaxTrimmedEvery + 1, false, false}, {1, 5, true, false},
	} {
		cfg := newScenario().cfg
		cfg.Types[0].KeepEvents, cfg.Types[0].SnapshotEvery, cfg.Types[0].Desc.Volatile = c.keep, c.every, c.volatile
		if err := cfg.Validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

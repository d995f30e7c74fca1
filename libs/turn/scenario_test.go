package turn_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

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
	cfg.ResultBytes, cfg.TotalResultBytes = 500, 800
	cfg.EntityLoads, cfg.TotalLoads, cfg.RemindersPerEntity = 2, 3, 3
	cfg.TurnSends, cfg.PendingSends = 3, 5
	cfg.AsksPerTurn, cfg.WaitingTurns = 3, 5
	cfg.KeyAge = time.Hour
	return &scenario{cfg: cfg, m: turn.New(cfg), now: time.Unix(1000, 0), runs: map[turn.RequestID]*turn.Run{}, firings: map[string]*turn.Run{}, asks: map[uint64]turn.Incarnation{}}
}

var shard0 = sharding.ShardID{Type: "T"}

// options are the words of a line that say more, such as events=2 and keyed.
type options map[string]string

func (o options) has(k string) bool {
	_, ok := o[k]
	return ok
}

// commands are the possible first words of a line.
var commands = map[string]func(s *scenario, f []string, opt options) []string{
	"open": func(s *scenario, _ []string, _ options) []string {
		return s.step(turn.Open{Shard: shard0, Epoch: sharding.MakeEpoch(1, 1)})
	},
	// quarantine, suspect, release: the entity a
	"quarantine": func(s *scenario, _ []string, _ options) []string {
		return s.quarantine(sharding.Quarantined{ID: "a", Why: "by the test"})
	},
	"suspect": func(s *scenario, _ []string, _ options) []string {
		return s.quarantine(sharding.Quarantined{ID: "a", Suspect: true})
	},
	"release":      func(s *scenario, _ []string, _ options) []string { return s.quarantine() },
	"remember":     (*scenario).onRemember,
	"keep":         (*scenario).onKeep,
	"forms":        (*scenario).onForms,
	"start-entity": (*scenario).onStartEntity,
	"deliver":      (*scenario).onDeliver,
	"loaded":       func(s *scenario, f []string, opt options) []string { return s.step(s.loaded(f[1:], opt)) },
	"take":         (*scenario).onTake,
	// ended 2 seq=3: two sends of record 3
	"ended": func(s *scenario, f []string, opt options) []string {
		return s.step(turn.SendsEnded{Shard: shard0, Epoch: sharding.MakeEpoch(1, 1), Entity: sharding.Entity{Type: "T", ID: "a"}, Seqs: slices.Repeat([]uint64{number(opt["seq"])}, int(number(f[1])))})
	},
	"fire":     (*scenario).onFire,
	"lookedup": (*scenario).onLookedUp,
	"sendread": (*scenario).onSendRead,
	"done":     (*scenario).onDone,
	"appended": (*scenario).onAppended,
	"fence":    (*scenario).onFence,
	"stopped": func(s *scenario, _ []string, _ options) []string {
		return s.step(turn.Stopped{Incarnation: s.stop.Incarnation})
	},
	"drain":    func(s *scenario, _ []string, _ options) []string { return s.step(turn.Drain{Shard: shard0}) },
	"abort":    func(s *scenario, _ []string, _ options) []string { return s.step(turn.Abort{Shard: shard0}) },
	"tick":     (*scenario).onTick,
	"limit":    (*scenario).onLimit,
	"ask":      (*scenario).onAsk,
	"asked":    (*scenario).onAsked,
	"withdraw": (*scenario).onWithdraw,
	"look":     (*scenario).onLook,
	"stats":    func(s *scenario, _ []string, _ options) []string { return []string{fmt.Sprintf("%+v", s.m.Stats())} },
}

func (s *scenario) command(f []string) []string {
	opt := options{}
	for _, x := range f[1:] {
		k, v, _ := strings.Cut(x, "=")
		opt[k] = v
	}
	do, ok := commands[f[0]]
	if !ok {
		return []string{"unknown command " + f[0]}
	}
	return do(s, f, opt)
}

// onLook lists the entities in memory as operators see them.
func (s *scenario) onLook(f []string, opt options) (trace []string) {
	filter := turn.EntityFilter{Prefix: opt["prefix"], After: sharding.EntityID(opt["after"])}
	if opt.has("running") {
		filter.RunningSince = s.now.Add(-ms(opt["running"]))
	}
	n := 100
	if opt.has("limit") {
		n = int(number(opt["limit"]))
	}
	list, looked := s.m.EntitiesOf(shard0, filter, n)
	trace = append(trace, fmt.Sprintf("looked at %d", looked))
	age := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return s.now.Sub(t).String()
	}
	for _, e := range list {
		if one, ok := s.m.Entity(e.Entity); !ok || one != e {
			trace = append(trace, fmt.Sprintf("alone: %+v", one))
		}
		trace = append(trace, fmt.Sprintf("%s in %s at %s %s mailbox %d oldest %s running %q for %s waits %q idle %s durable %d staged %d bytes %d",
			e.Entity, e.Shard, e.Epoch, e.State, e.Mailbox, age(e.OldestSince), e.Running, age(e.RunningSince), e.WaitsFor.ID, age(e.IdleSince), e.Durable, e.Staged, e.Bytes))
	}
	return trace
}

func (s *scenario) onRemember([]string, options) []string {
	typ := s.cfg.Types[0]
	typ.Remember, typ.SnapshotEvery = true, 0
	s.cfg.Types = []turn.Type{typ}
	s.m = turn.New(s.cfg)
	return nil
}

// onKeep: "keep 2" makes a version of the type that keeps 2 events, "keep 0" one that keeps all.
func (s *scenario) onKeep(f []string, _ options) []string {
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
}

// onForms makes a version of the type that writes forms of events, of the input of a command, and of answers.
func (s *scenario) onForms([]string, options) []string {
	typ := s.cfg.Types[0]
	typ.Desc.Writes = []sharding.Form{
		{Kind: sharding.FormOfEvent, Name: "E", Version: 1},
		{Kind: sharding.FormOfInput, Name: "Add", Version: 1}, {Kind: sharding.FormOfInput, Name: "Got", Version: 1},
	}
	s.cfg.Types = []turn.Type{typ}
	s.m = turn.New(s.cfg)
	return nil
}

func (s *scenario) onStartEntity(_ []string, opt options) []string {
	in := turn.StartEntity{Shard: shard0, Epoch: sharding.MakeEpoch(1, 1), Entity: sharding.Entity{Type: "T", ID: sharding.EntityID(cmp.Or(opt["entity"], "a"))}}
	if opt.has("epoch") {
		in.Epoch = sharding.MakeEpoch(1, uint32(number(opt["epoch"])))
	}
	return s.step(in)
}

func (s *scenario) onDeliver(f []string, opt options) []string {
	r, _ := strconv.Atoi(f[1])
	env := sharding.Envelope{
		Entity: sharding.Entity{Type: "T", ID: "a"}, ID: sharding.CommandID(f[2]), Command: f[3],
		Keyed: opt.has("keyed"), Tell: opt.has("tell"), Payload: []byte(opt["payload"]), Principal: opt["principal"],
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
}

// onTake fires the command that takes the answer to a send.
func (s *scenario) onTake(f []string, opt options) []string {
	in := turn.Fire{Shard: shard0, Epoch: sharding.MakeEpoch(1, 1), Entity: sharding.Entity{Type: "T", ID: "a"}}
	in.Wakeup.Kind, in.Wakeup.Name, in.Wakeup.Input.Command = sharding.SendWake, f[1], f[2]
	in.Wakeup.Seq, in.Wakeup.Number = number(opt["seq"]), number(opt["number"])
	in.Wakeup.Answer = &turn.SendResult{SentAt: time.UnixMilli(int64(number(opt["sent"]))), Reply: sharding.Reply{Outcome: sharding.Executed, Payload: []byte(f[1])}}
	return s.step(in)
}

func (s *scenario) onFire(f []string, opt options) []string {
	in := turn.Fire{Shard: shard0, Epoch: sharding.MakeEpoch(1, 1), Entity: sharding.Entity{Type: "T", ID: "a"}}
	in.Wakeup.Kind, in.Wakeup.Name, in.Wakeup.Input.Command = sharding.ReminderWake, f[1], f[2]
	in.Wakeup.Seq, in.Wakeup.Number, in.Wakeup.Next = number(opt["seq"]), number(opt["number"]), int64(number(opt["next"]))
	in.Wakeup.Due = int64(number(opt["due"]))
	if e := opt["entity"]; e != "" {
		in.Entity.ID = sharding.EntityID(e)
	}
	if opt.has("epoch") {
		in.Epoch = sharding.MakeEpoch(1, uint32(number(opt["epoch"])))
	}
	return s.step(in)
}

func (s *scenario) onLookedUp(_ []string, opt options) []string {
	in := turn.LookedUp{Incarnation: s.lookup.Incarnation, ID: s.lookup.ID, Failed: opt.has("failed"), Found: opt.has("expired") || opt.has(string(s.lookup.ID))}
	in.Stored = sharding.Stored{Expired: opt.has("expired"), Hash: sharding.CommandHash(opt["principal"], "Add", nil),
		Reply: sharding.Reply{Outcome: sharding.Executed, Payload: []byte(opt[string(s.lookup.ID)])}}
	return s.step(in)
}

func (s *scenario) onSendRead(f []string, opt options) []string {
	in := turn.ReadSendDone{Incarnation: s.send.Incarnation, Request: s.send.Request, Err: opt["err"]}
	in.State = map[string]sharding.SendState{"pending": sharding.SendPending, "done": sharding.SendDone, "refused": sharding.SendRefused, "in-doubt": sharding.SendInDoubt}[f[1]]
	in.Send = sharding.Send{To: sharding.Entity{Type: "T", ID: "b"}, Input: sharding.Input{Command: "Add", Payload: []byte("x")}, ReplyTo: opt["reply-to"]}
	if in.Err != "" {
		in.Code = sharding.Unavailable
	}
	return s.step(in)
}

func (s *scenario) onDone(f []string, opt options) []string {
	if opt["wake"] == "" && s.runs[turn.RequestID(number(f[1]))] == nil {
		return []string{"no turn of that request"}
	}
	return s.step(s.done(f, opt))
}

func (s *scenario) onAppended(f []string, _ options) []string {
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
}

func (s *scenario) onFence(f []string, _ options) []string {
	if len(s.fences) == 0 {
		return []string{"no fence is read"}
	}
	q := s.fences[0]
	s.fences = s.fences[1:]
	return s.step(turn.FenceRead{Shard: q.Shard, Epoch: q.Epoch, Number: q.Number,
		Verdict: verdict(f[1]), Fence: sharding.Fence{Epoch: sharding.MakeEpoch(2, 1)}, Reason: f[1]})
}

func (s *scenario) onTick(f []string, _ options) []string {
	s.now = s.now.Add(ms(f[1]))
	return s.step(turn.Tick{})
}

func (s *scenario) onLimit(f []string, opt options) []string {
	var l turn.Usage
	if _, err := fmt.Sscan(strings.Join(f[1:4], " "), &l.Commands, &l.Bytes, &l.Loads); err != nil {
		return []string{err.Error()}
	}
	r := turn.Usage{Commands: int(number(opt["reserve"]))}
	s.m.Limit(l, r)
	return nil
}

func (s *scenario) onAsk(f []string, opt options) []string {
	if opt["wake"] == "" && s.runs[turn.RequestID(number(f[1]))] == nil {
		return []string{"no turn of that request"}
	}
	return s.step(s.ask(f, opt))
}

func (s *scenario) onAsked(f []string, opt options) []string {
	n := number(f[1])
	in := turn.AskAnswered{Incarnation: s.asks[n], Number: n, Reply: sharding.Reply{Outcome: sharding.Executed, Payload: []byte(opt["reply"]), Code: sharding.Code(opt["error"])}}
	if opt.has("reject") {
		in.Reply = sharding.Reject(sharding.Code(opt["reject"]), "refused there")
	}
	if opt.has("doubt") {
		in.Reply = sharding.Doubt(sharding.Code(opt["doubt"]), "in doubt there")
	}
	return s.step(in)
}

func (s *scenario) onWithdraw(f []string, _ options) []string {
	n := number(f[1])
	return s.step(turn.WithdrawAsk{Incarnation: s.asks[n], Number: n})
}

func (s *scenario) loaded(args []string, opt options) turn.Loaded {
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
		case k == "cause":
			in.Cause = v
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
			in.Stored[sharding.CommandID(v)] = sharding.Stored{Hash: sharding.Hash{1}}
		case k == "expired":
			in.Stored[sharding.CommandID(v)] = sharding.Stored{Expired: true}
		case found:
			in.Stored[sharding.CommandID(k)] = sharding.Stored{Hash: sharding.CommandHash(opt["principal"], cmp.Or(opt["of"], "Add"), nil),
				Reply: sharding.Reply{Outcome: sharding.Executed, Payload: []byte(v)}}
		default:
			n, _ := strconv.Atoi(a)
			in.LastSeq = uint64(n)
		}
	}
	return in
}

func (s *scenario) ask(f []string, opt options) turn.Ask {
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
		ReadOnly: opt.has("read-only"), Key: sharding.CommandID(opt["key"]), KeyName: opt["step"], Payload: []byte(opt["payload"]),
	}
	if d := opt["deadline"]; d != "" {
		in.Deadline = s.now.Add(ms(d))
	}
	return in
}

func (s *scenario) done(f []string, opt options) turn.TurnDone {
	r, _ := strconv.Atoi(f[1])
	run := s.runs[turn.RequestID(r)]
	if name := opt["wake"]; name != "" {
		run = s.firings[name]
	}
	in := turn.TurnDone{Incarnation: run.Incarnation, Request: run.Request,
		Reply:   sharding.Reply{Outcome: sharding.Executed, Payload: []byte(opt["reply"]), Code: sharding.Code(opt["error"])},
		Spoiled: opt.has("spoiled"), Passivate: opt.has("passivate"), Deleted: opt.has("deleted"), Forgotten: opt.has("forget")}
	if opt.has("reject") {
		in.Reply = sharding.Reject(cmp.Or(sharding.Code(opt["reject"]), sharding.Internal), "undone")
	}
	if opt.has("bad") {
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
		s.keep(o)
		lines = append(lines, s.line(o))
	}
	for _, e := range s.m.ShardEvents() {
		lines = append(lines, eventLine(e))
	}
	return lines
}

// keep keeps an output for the lines that answer it.
func (s *scenario) keep(o turn.Output) {
	switch o := o.(type) {
	case turn.Load:
		s.load = o
		s.loads = append(s.loads, o)
	case turn.Lookup:
		s.lookup = o
	case turn.ReadSend:
		s.send = o
	case *turn.Run:
		if w := o.Wakeup; w != nil {
			run := *o // its memory is reused
			s.firings[w.Name] = &run
		} else {
			s.runs[o.Request] = o
		}
	case turn.Append:
		s.appends = append(s.appends, o)
	case turn.ReadFence:
		s.fences = append(s.fences, o)
	case turn.AskDone:
		s.waiting--
	case turn.Stop:
		s.stop = o
	}
}

// line returns how the scenarios write an output.
func (s *scenario) line(o turn.Output) string {
	switch o := o.(type) {
	case turn.Load:
		line := fmt.Sprintf("Load %s inc %s lookup %v lookup-only %t", o.Entity, o.Incarnation, o.Lookup, o.LookupOnly)
		if o.Background {
			line += " in the background"
		}
		if o.Bare {
			line += " bare"
		}
		return line
	case turn.Lookup:
		return fmt.Sprintf("Lookup %s inc %s %s", o.Entity, o.Incarnation, o.ID)
	case turn.ReadSend:
		return fmt.Sprintf("ReadSend %s inc %s request %d: record %d, place %d", o.Entity, o.Incarnation, o.Request, o.Seq, o.Place)
	case *turn.Run:
		return runLine(o)
	case turn.Append:
		return appendLine(o)
	case turn.ReadFence:
		return fmt.Sprintf("ReadFence %s number %d", o.Shard, o.Number)
	case *turn.Answer:
		return trimmed("Answer %d %s %s %s%s", o.Request, o.Reply.Outcome, o.Reply.Code, o.Reply.Payload, o.Reply.Message)
	case turn.SendAsk:
		return fmt.Sprintf("SendAsk %d to %s %s %s keyed=%t chain %v, %s left", o.Number, o.Env.Entity, o.Env.Command, o.Env.ID, o.Env.Keyed, o.Env.Chain, o.Env.Deadline.Sub(s.now))
	case turn.SendProbe:
		return fmt.Sprintf("SendProbe to %s chain %v", o.Env.Entity, o.Env.Chain)
	case turn.AskDone:
		return trimmed("AskDone %d %s %s %s%s", o.Number, o.Reply.Outcome, o.Reply.Code, o.Reply.Payload, o.Reply.Message)
	case *turn.UnwatchedDone:
		if o.Wakeup != (sharding.WakeRef{}) {
			return trimmed("UnwatchedDone %s %s wakeup=%s again=%t %s %s %s", o.Entity, o.Command, o.Wakeup.Name, o.Again, o.Reply.Outcome, o.Reply.Code, o.Reply.Message)
		}
		return trimmed("UnwatchedDone %s %s timer=%t %s %s %s", o.Entity, o.Command, o.Timer, o.Reply.Outcome, o.Reply.Code, o.Reply.Message)
	case turn.Stop:
		return fmt.Sprintf("Stop %s inc %s %s", o.Entity, o.Incarnation, o.Reason)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T %+v", o, o), "turn.")
}

// trimmed is a text without spaces at its end.
func trimmed(format string, args ...any) string {
	return strings.TrimRight(fmt.Sprintf(format, args...), " ")
}

func runLine(o *turn.Run) string {
	line := fmt.Sprintf("Run %s inc %s request %d %s %s", o.Entity, o.Incarnation, o.Request, o.Env.Command, o.Env.ID)
	if o.Fresh {
		line += " fresh"
	}
	if w := o.Wakeup; w != nil {
		line += fmt.Sprintf(" wakeup %s seq %d number %d", w.Name, w.Seq, w.Number)
	}
	return line
}

func appendLine(o turn.Append) string {
	line := fmt.Sprintf("Append %s at %s", o.Append.Entity, o.Append.Epoch)
	for i := range o.Append.Records {
		line += recordText(&o.Append.Records[i])
	}
	for _, d := range o.Append.Delivered {
		line += fmt.Sprintf(" [seq %d sends %v %s once %t]", d.Seq, d.Sends, d.As, d.Once)
	}
	for _, w := range o.Append.Fired {
		line += fmt.Sprintf(" [%s seq %d number %d fired, next %d]", w.Name, w.Seq, w.Number, w.Next)
	}
	return line
}

func recordText(r *sharding.Record) string {
	text := fmt.Sprintf(" [%d %q %d events]", r.Seq, r.Command, len(r.Events))
	if r.Delete {
		text += " [delete]"
	}
	if r.Operator {
		text += " [operator]"
	}
	for _, w := range r.Wakes {
		if w.Kind == sharding.RememberWake {
			w.Name = "remember"
		}
		text += fmt.Sprintf(" [%s at %d]", w.Name, w.Due)
	}
	if n := len(r.Sends); n > 0 {
		text += fmt.Sprintf(" [%d sends]", n)
		if to := r.Sends[0].ReplyTo; to != "" {
			text += " [answer to " + to + "]"
		}
	}
	return text
}

// eventLine returns a shard's event in the notation of the scenarios.
func eventLine(e turn.ShardEvent) string {
	line := strings.TrimPrefix(fmt.Sprintf("%T %+v", e, e), "turn.")
	switch e := e.(type) {
	case turn.FiringEnded:
		line = trimmed("FiringEnded %s at %s %s seq %d number %d: %s %s %s", e.Entity, e.Epoch, e.Ref.Name, e.Ref.Seq, e.Ref.Number, e.End, e.Code, e.Message)
	case turn.SendsStored:
		line = fmt.Sprintf("SendsStored %s: %d records", e.Entity, len(e.Records))
	case turn.StartEnded:
		line = trimmed("StartEnded %s at %s: %s %s %s", e.Entity, e.Epoch, e.End, e.Code, e.Message)
	case turn.WakesChanged:
		line = fmt.Sprintf("WakesChanged %s: %d fired, %d records", e.Entity, len(e.Fired), len(e.Records))
	case turn.Drained:
		if len(e.Wrote) > 0 {
			line = fmt.Sprintf("Drained %s at %s wrote forms %v", e.Shard, e.Epoch, slices.Collect(e.Wrote.All()))
		}
	}
	return strings.Replace(line, " Wrote: Kept:[]}", "}", 1) // no type here has forms, or keeps states
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
		"command": sharding.RefusedCommand, "wake": sharding.RefusedWake, "full": sharding.RefusedFull, "large": sharding.RefusedTooLarge, "damaged": sharding.RefusedDamaged, "unknown": sharding.UnknownOutcome,
	}[s]
}

func (s *scenario) quarantine(list ...sharding.Quarantined) []string {
	return s.step(turn.SetQuarantine{Type: "T", List: list})
}

package server

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Failures inside an entity are described in the log only: a caller may be anybody, and gets a reference for
// searching the log.

// reference names a line of the log; empty: none was written.
type reference string

func newReference() reference {
	const space = 36 * 36 * 36 * 36 * 36 * 36 * 36 * 36
	s := strconv.FormatUint(space+rand.Uint64N(space), 36)
	return reference(s[len(s)-8:])
}

// tell adds the reference to the caller's message. If a turn fails because an entity that it has asked has
// failed, the message has the reference of that failure, which is the cause.
func (r reference) tell(message *string) {
	switch {
	case strings.Contains(*message, underReference):
	case r == "":
		*message += "; the region has too much to log to say why"
	default:
		*message += underReference + string(r)
	}
}

const underReference = "; the region's log has the cause under reference "

// maxCause bounds the author's error in a message for operators, in bytes.
const maxCause = 300

// tellOperators adds the author's error to the message, because only operators and the sender read it: that the command
// of a reminder or of a send has failed is listed by what tries it again. It adds the reference too.
func (r reference) tellOperators(message *string, why error) {
	if text := cut(why.Error(), maxCause); !strings.Contains(*message, text) {
		*message += ": " + text
	}
	r.tell(message)
}

// cut returns the first bytes of a text of any length, as valid UTF-8.
func cut(text string, most int) string {
	if len(text) > most {
		text = text[:most] + " …"
	}
	return strings.ToValidUTF8(text, "")
}

// failures bounds the lines per second that failures write.
type failures struct {
	limit int

	mu      sync.Mutex
	second  time.Time // that is counted
	lines   int       // in it
	skipped int       // since the last line
}

// admit reports whether there may be one more line, and how many there were not
// since the last one.
func (f *failures) admit(now time.Time) (ok bool, skipped int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.second) >= time.Second {
		f.second, f.lines = now, 0
	}
	if f.lines >= f.limit {
		f.skipped++
		return false, 0
	}
	f.lines++
	skipped, f.skipped = f.skipped, 0
	return true, skipped
}

// turnFailed logs why a turn failed.
func (s *shared) turnFailed(run *turn.Run, reply *sharding.Reply, why error) reference {
	ok, skipped := s.failures.admit(time.Now())
	if !ok {
		return ""
	}
	ref := newReference()
	log := s.log.With("reference", ref, "entity.type", run.Entity.Type, "entity.id", run.Entity.ID, "command", run.Env.Command,
		"code", reply.Code, "error", why)
	if p := new(instance.Panic); errors.As(why, &p) {
		log = log.With("stack", p.Stack)
	}
	if skipped > 0 {
		log = log.With("not_logged", skipped)
	}
	if reply.Outcome != sharding.NotApplied { // of a volatile type
		log.Error("a turn failed without undoing its changes", "hint", "the entity is loaded again before its next turn")
	} else {
		log.Error("a turn failed and was undone")
	}
	return ref
}

// abandoned logs that a turn was abandoned, and what an operator can do about its handler.
func (s *shardLoop) abandoned(o turn.Abandoned) {
	ok, skipped := s.failures.admit(s.now)
	if !ok {
		return
	}
	runs := s.now.Sub(o.Began)
	s.queue(job{Work: work{do: func() { // the core waits for no log
		s.log.Warn("abandoned a turn whose handler did not return",
			"hint", "its shard had to be released. The handler has no further effect on the entity, but its goroutine stays until it returns or the region ends. "+
				"Change the handler so that it returns when its context ends, and restart the region if many such goroutines stay",
			"entity.type", o.Entity.Type, "entity.id", o.Entity.ID, "command", o.Command, "running_for", runs, "not_logged", skipped)
	}}})
}

// loadFailed logs why an entity is not available.
func (s *shared) loadFailed(id sharding.Entity, why error) reference {
	ok, skipped := s.failures.admit(time.Now())
	if !ok {
		return ""
	}
	ref := newReference()
	s.log.Error("an entity cannot be brought to life", "reference", ref, "entity.type", id.Type, "entity.id", id.ID, "error", why, "not_logged", skipped)
	return ref
}

// unwatchedDone takes in the end of a command that no caller waits for: it is measured like every other, and
// logged if it did not succeed.
func (s *shardLoop) unwatchedDone(o *turn.UnwatchedDone) {
	s.slowUnwatched(s.now, o)
	s.observe(&caller{arrived: o.Arrived, entity: o.Entity, command: o.Command, trace: o.Trace}, &o.Reply)
	if o.Reply.Outcome == sharding.Executed && o.Reply.Code == "" {
		return
	}
	ok, skipped := s.failures.admit(s.now)
	if !ok {
		return
	}
	what, end := unwatchedDoneText(o), *o
	s.queue(job{Work: work{do: func() { // the core waits for no log
		// A reference is in the message, if why it has failed is in a line of its own.
		log := s.log
		switch end.Wakeup.Kind {
		case sharding.ReminderWake:
			log = log.With("reminder", end.Wakeup.Name)
		case sharding.SendWake: // the name is the target's
			log = log.With("target", end.Wakeup.Name)
		}
		log.Warn(what, "entity.type", end.Entity.Type, "entity.id", end.Entity.ID, "command", end.Command,
			"outcome", end.Reply.Outcome.String(), "code", end.Reply.Code, "message", end.Reply.Message, "not_logged", skipped)
	}}})
}

// unwatchedDoneText returns the log message for a command that has failed.
func unwatchedDoneText(o *turn.UnwatchedDone) string {
	switch {
	case o.Timer:
		return "the command of a timer has failed"
	case o.Wakeup.Kind == sharding.SendWake && o.Again:
		return "the command that takes the answer to a send has failed and will run again"
	case o.Wakeup.Kind == sharding.SendWake:
		return "the command that takes the answer to a send has been refused by its entity, and the send has ended"
	case o.Wakeup.Kind == sharding.ReminderWake && o.Again:
		return "the command of a reminder has failed and will run again"
	case o.Wakeup.Kind == sharding.ReminderWake:
		return "the command of a reminder has been refused by its entity"
	}
	return "an accepted tell has failed"
}

// look returns the replies to commands that are refused before a core sees them, by their index, and what was
// decoded of the others on the way; inputs is nil if nothing was.
func (s *shared) look(cmds []link.Command) (refused map[int]*sharding.Reply, inputs []instance.Decoded) {
	for i := range cmds {
		env := &cmds[i].Envelope
		r := s.forbidden(env)
		if r == nil && env.Tell && !env.Keyed {
			var in instance.Decoded
			if in, r = s.checkTell(env); r == nil && len(env.Payload) <= maxKeptInput {
				if inputs == nil {
					inputs = make([]instance.Decoded, len(cmds))
				}
				inputs[i] = in
			}
		}
		if r != nil {
			if refused == nil {
				refused = map[int]*sharding.Reply{}
			}
			refused[i] = r
		}
	}
	return refused, inputs
}

// maxKeptInput is the largest payload whose decoded value is kept until the command is taken in, in bytes: a
// value may take many times the memory of its payload.
const maxKeptInput = 1 << 10

// forbidden refuses what the policy does not allow. Commands that entities send are not checked: the
// entity's code decides about them. Nor are Roost's own commands, which no gateway takes from
// clients.
func (s *shared) forbidden(env *sharding.Envelope) *sharding.Reply {
	if s.policy == nil || len(env.Chain) > 0 || env.Version > 0 || sharding.IsBuiltin(env.Command) {
		return nil
	}
	if err := s.policy.Check(env); err != nil {
		r := sharding.Reject(sharding.PermissionDenied, err.Error())
		return &r
	}
	return nil
}

// checkTell refuses a tell that cannot be read. The sender of a tell learns of nothing after it was
// accepted, so its input is looked at before. The goroutine that brings it does that: decoding may
// be the author's code and take long.
func (s *shared) checkTell(env *sharding.Envelope) (instance.Decoded, *sharding.Reply) {
	t, known := s.types[env.Entity.Type]
	if !known {
		return instance.Decoded{}, nil
	}
	return instance.CheckInput(t, env, func(f func()) { loop.Apart(f) })
}

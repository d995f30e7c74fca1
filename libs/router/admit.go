package router

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/sharding"
)

// submit admits a command or refuses it.
func (m *Machine) submit(in *Submit) {
	if m.requests[in.Request] != nil {
		return
	}
	deadline := in.Env.Deadline
	switch {
	case deadline.IsZero():
		deadline = m.now.Add(m.cfg.DefaultTimeout)
	case !m.now.Before(deadline):
		m.refuse(in.Request, sharding.DeadlineExceeded, "not applied: the deadline had passed on arrival")
		return
	case deadline.After(m.now.Add(m.cfg.MaxTimeout)):
		deadline = m.now.Add(m.cfg.MaxTimeout)
	}
	size := in.Env.Size()
	switch {
	case size > int(m.cfg.MaxWaitingBytes):
		m.refuse(in.Request, sharding.InvalidArgument,
			fmt.Sprintf("the command counts %d bytes, at most %d are allowed", size, int(m.cfg.MaxWaitingBytes)))
		return
	case len(m.requests) >= m.cfg.MaxTotal || m.bytes+size > int(m.cfg.MaxTotalBytes):
		m.refuse(in.Request, sharding.ResourceExhausted, "too many commands are in progress in this "+m.cfg.Process)
		return
	}
	expects := m.expect(in.Env)
	if m.expects+m.held+expects > int(m.cfg.MaxReplyBytes) {
		m.refuse(in.Request, sharding.ResourceExhausted, "too many replies are expected, or wait for their clients, in this "+m.cfg.Process)
		return
	}
	r := reuse(&m.spareRequests)
	r.id, r.env, r.size, r.expects = in.Request, *in.Env, size, expects
	r.env.Deadline, r.mustRead, r.since = deadline, in.ReadOnly, m.now
	s := m.unplaced
	if m.known() {
		var refusal *sharding.Reply
		if s, refusal = m.place(r); refusal != nil {
			m.refuse(in.Request, refusal.Code, refusal.Message)
			return
		}
	}
	m.order++
	r.order = m.order
	m.requests[r.id] = r
	m.bytes += size
	m.expects += expects
	m.waiting++
	m.enter(s, r)
	r.timer = timer{request: r}
	m.timers.set(&r.timer, deadline)
}

// enter adds a request that place has admitted.
func (m *Machine) enter(s *shard, r *request) {
	s.push(r)
	if m.lacking(s, r) != "" {
		m.deferRequest(r)
	}
	m.touch(s)
}

// expect returns the expected size of the reply to a command, from earlier replies to commands of its kind. The
// size is at most the whole limit. Otherwise, after one larger reply, no command of that kind would be
// admitted again.
func (m *Machine) expect(env *sharding.Envelope) int {
	if env.Tell && !env.Keyed {
		return replies.Overhead
	}
	if k := m.estimates[kindOf(env)]; k != nil {
		return min(k.Expect(m.cfg.UnknownReply), int(m.cfg.MaxReplyBytes))
	}
	return m.cfg.UnknownReply
}

// hold counts the real size of a reply in place of its expected size, and returns the size. If there is no
// room for the reply, hold replaces it by an error with the same outcome.
func (m *Machine) hold(r *request, reply *sharding.Reply) (size int, leftOut bool) {
	size = replies.Size(reply)
	if reply.Outcome == sharding.Executed && reply.Code == "" && !(r.env.Tell && !r.env.Keyed) {
		name := kindOf(&r.env)
		k := m.estimates[name]
		if k == nil { // a new kind; there are few, because only commands that a region knows get here
			k = &replies.SizeEstimate{}
			m.estimates[name.clone()] = k
		}
		k.Learn(size)
	}
	m.expects -= r.expects
	leftOut = size > r.expects && m.expects+m.held+size > int(m.cfg.MaxReplyBytes) && len(reply.Payload) > 0
	if leftOut {
		*reply = replies.NoRoom(reply, r.readOnly, "too many wait for their clients in this "+m.cfg.Process+" ("+m.cfg.ReplyKey+")")
		size = replies.Size(reply)
	}
	r.expects = 0
	m.held += size
	return size, leftOut
}

// known reports whether the router has a route table. A table without types does not count: the regions of the
// cluster are still starting.
func (m *Machine) known() bool { return !m.table.Empty() }

// place returns the shard of a command, or the refusal of the command. It sets the fields of
// r that depend on the table.
func (m *Machine) place(r *request) (*shard, *sharding.Reply) {
	env := &r.env
	desc, ok := m.table.Type(env.Entity.Type)
	if !ok {
		refusal := sharding.Reject(sharding.NotFound, m.unknownType(env.Entity.Type))
		return nil, &refusal
	}
	command, ok := desc.Command(env.Command)
	if !ok && sharding.IsBuiltin(env.Command) { // types do not declare built-in commands, so the sender reports whether this one only reads
		command, ok = sharding.CommandDesc{Name: env.Command, ReadOnly: r.mustRead}, true
	}
	if !ok {
		refusal := sharding.Reject(sharding.Unimplemented, unknownCommand(desc, env.Command))
		return nil, &refusal
	}
	// Invariant: if a sender believes that a command is read-only, but the command may change something, the command is
	// refused.
	// Mutants: must-read
	if r.mustRead && !command.ReadOnly { //mutant:false must-read
		refusal := sharding.Reject(sharding.FailedPrecondition,
			fmt.Sprintf("not applied: %s.%s is sent as read-only, but may change the entity according to the regions that host it", desc.Type, command.Name))
		return nil, &refusal
	}
	if desc.Unhosted && !m.reachable(desc, env.Entity.ID) {
		refusal := sharding.Reject(sharding.Unavailable, unhosted(desc))
		return nil, &refusal
	}
	s := m.shard(shardOf(desc, env.Entity.ID))
	if s.count >= m.cfg.MaxWaiting || s.bytes+r.size > int(m.cfg.MaxWaitingBytes) {
		refusal := sharding.Reject(sharding.ResourceExhausted, "too many commands are in progress for the shard of this entity")
		return nil, &refusal
	}
	if why := m.lacking(s, r); why != "" && !m.mayDefer(s, r) {
		m.touch(s)
		refusal := otherVersion(why)
		return nil, &refusal
	}
	r.readOnly = command.ReadOnly
	r.resend = command.ReadOnly || r.env.Keyed && !desc.Volatile
	return s, nil
}

// shardOf returns the shard of an entity of the type.
func shardOf(desc *sharding.TypeDesc, id sharding.EntityID) sharding.ShardID {
	// Invariant: every process finds the same shard for an entity. The rule that maps entities to shards never changes.
	// Guarded by: `sharding.TypeDesc.ShardOf` is the only code that computes the shard. `coordinator.checkType` refuses
	// a region with another rule. `routetable.Table` ignores another rule.
	// Mutants: route-rule, shard-rule
	//mutant:do route-rule return (&sharding.TypeDesc{Type: desc.Type, Shards: desc.Shards}).ShardOf(id)
	return desc.ShardOf(id)
}

// shard returns the shard, and adds it if necessary. If it was touched, the end of the
// step removes it again unless it has commands or a refused epoch.
func (m *Machine) shard(id sharding.ShardID) *shard {
	s := m.shards[id]
	if s == nil {
		s = reuse(&m.spareShards)
		*s = shard{id: id, known: true}
		s.timer.shard = s
		m.shards[id] = s
	}
	return s
}

// reachable reports whether the table names a region that serves the entity's shard, and the router has a link
// to it. Such a region may serve the shard although the coordinator has lost the region.
func (m *Machine) reachable(desc *sharding.TypeDesc, id sharding.EntityID) bool {
	row, _ := m.table.Row(shardOf(desc, id))
	l := m.links[row.Owner]
	return row.Phase == sharding.Serving && l != nil && l.up
}

// unhosted returns the message that no region hosts the type, and which one did.
func unhosted(desc *sharding.TypeDesc) string {
	why := fmt.Sprintf("no registered region hosts the type %s", desc.Type)
	if desc.LastHost != "" {
		why += "; the last one was " + desc.LastHost
	}
	return why
}

// unknownType returns the text of a refusal. It names the first ten types that there are.
func (m *Machine) unknownType(name sharding.EntityType) string {
	var names []string
	for _, t := range m.table.Types() {
		names = append(names, string(t.Type))
	}
	return fmt.Sprintf("no region hosts the type %s; there is %s", name, list(names))
}

// unknownCommand returns the text of a refusal. It names the first ten commands of the type.
func unknownCommand(desc *sharding.TypeDesc, name string) string {
	var names []string
	for _, c := range desc.Commands {
		names = append(names, c.Name)
	}
	return fmt.Sprintf("%s has no command %s; it has %s", desc.Type, name, list(names))
}

// list joins the first ten names.
func list(names []string) string {
	if len(names) > 10 {
		names = append(slices.Clip(names[:10]), "…")
	}
	return strings.Join(names, ", ")
}

// placeAll places the commands that waited for the first table, in order of admission.
func (m *Machine) placeAll() {
	if !m.known() {
		return
	}
	for r := m.unplaced.first; r != nil; r = m.unplaced.first {
		s, refusal := m.place(r)
		if refusal != nil {
			m.finish(r, *refusal, sharding.NodeID{})
			continue
		}
		m.unplaced.remove(r)
		m.enter(s, r)
	}
}

// refuse ends a command that was not admitted.
func (m *Machine) refuse(id RequestID, code sharding.Code, message string) {
	f := Finish{Request: id, Reply: sharding.Reject(code, message), RetryAfter: m.hint(code)}
	m.ended(m.now, &f.Reply)
	m.emit(f)
}

// hint returns after how many milliseconds a command that was refused with this code may be sent again; 0: the
// reply does not say.
func (m *Machine) hint(code sharding.Code) int {
	switch code {
	case sharding.ResourceExhausted, sharding.Unavailable, sharding.UnknownCommand:
		return int(m.cfg.RetryHint / time.Millisecond)
	}
	return 0
}

// finish ends a request. A reply of NotApplied stays NotApplied only if no other attempt is in
// doubt, or if the command is read-only: then no attempt could have applied anything.
func (m *Machine) finish(r *request, reply sharding.Reply, region sharding.NodeID) {
	switch {
	case r.readOnly && reply.Outcome == sharding.Unknown:
		reply.Outcome, reply.Message = sharding.NotApplied, "no answer; the command is read-only and changed nothing"+r.lastFailure()
	case r.readOnly:
	// Invariant: the outcome NotApplied means that the command has no effect.
	// Guarded by: `router.finish` answers with it only if none of its attempts is in doubt.
	// Mutants: doubt-kept
	case reply.Outcome == sharding.NotApplied && r.inDoubt(): //mutant:false doubt-kept
		reply = sharding.Doubt(reply.Code, "an earlier attempt may have been applied; the last one was refused: "+reply.Message+r.failureBefore(reply.Code))
	}
	m.ended(r.since, &reply)
	held, leftOut := m.hold(r, &reply)
	if leftOut {
		region = sharding.NodeID{} // the error comes from this process, and not from a region
	}
	f := Finish{Request: r.id, Reply: reply, Region: region, Attempts: r.attempts, Held: held}
	switch {
	case reply.Outcome == sharding.NotApplied:
		f.RetryAfter = m.hint(reply.Code)
	case reply.Code == sharding.ReplyLost && r.resend: // a repeat gets the stored reply
		f.RetryAfter = m.hint(sharding.ResourceExhausted)
	}
	m.dropRequest(r)
	m.emit(f)
}

// expire ends a request whose deadline has passed.
func (m *Machine) expire(r *request) {
	if r.inDoubt() {
		m.finish(r, sharding.Doubt(sharding.DeadlineExceeded,
			"no answer within the deadline; the command may or may not have been applied"+r.lastFailure()), r.region)
		return
	}
	did := "took"
	if r.failure != "" {
		did = "completed"
	}
	m.finish(r, sharding.Reject(sharding.DeadlineExceeded,
		"not applied: no region "+did+" the command within the deadline; "+m.waitsFor(r)+r.lastFailure()), sharding.NodeID{})
}

// lastFailure returns the text of the last failure after which the command was sent again. When the command's
// deadline has passed, this text says more than that the deadline has passed.
func (r *request) lastFailure() string {
	if r.failure == "" {
		return ""
	}
	return "; it was tried again, the last failure was " + r.failure
}

// failureBefore returns lastFailure if an answer says only that the deadline has passed.
func (r *request) failureBefore(code sharding.Code) string {
	if code != sharding.DeadlineExceeded {
		return ""
	}
	return r.lastFailure()
}

// waitsFor describes what a command waits for. The command is not in doubt.
func (m *Machine) waitsFor(r *request) string {
	desc, known := m.table.Type(r.env.Entity.Type)
	if !known {
		return "no route table with its type has come"
	}
	row, served := m.served(r.shard)
	switch l := m.links[row.Owner]; {
	case desc.Unhosted:
		return unhosted(desc)
	case row.Owner.IsZero():
		return "its shard has no region"
	case !served:
		return "its shard is moving, or its region has gone"
	case l == nil || !l.up:
		return "the region with its shard cannot be reached"
	}
	if r.failure != "" {
		return "its region was asked again after pauses"
	}
	return "the region with its shard is busy"
}

// stop ends all requests, in order of admission.
func (m *Machine) stop() {
	all := slices.SortedFunc(maps.Values(m.requests), func(a, b *request) int { return cmp.Compare(a.order, b.order) })
	for _, r := range all {
		if r.inDoubt() {
			m.finish(r, sharding.Doubt(sharding.Unavailable,
				"this "+m.cfg.Process+" stopped before the answer came; the command may or may not have been applied"), r.region)
			continue
		}
		m.finish(r, m.cfg.Stopping(), sharding.NodeID{})
	}
}

// dropRequest removes a request from memory.
func (m *Machine) dropRequest(r *request) {
	m.touch(r.shard)
	if r.inDoubt() {
		r.shard.departed = max(r.shard.departed, r.order)
	}
	for len(r.unanswered) > 0 {
		m.drop(m.attempts[r.unanswered[0]])
	}
	m.unblock(r)
	if !r.sent {
		m.waiting--
	}
	if r.deferred {
		r.shard.deferred.remove(r)
		m.deferred.remove(r)
	}
	r.shard.remove(r)
	m.timers.stop(&r.timer)
	m.bytes -= r.size
	m.expects -= r.expects
	delete(m.requests, r.id)
	*r = request{unanswered: r.unanswered}
	keep(&m.spareRequests, r)
}

// push adds a waiting or sent request behind all others of the shard.
func (s *shard) push(r *request) {
	r.shard, r.prev, r.next = s, s.last, nil
	if s.last != nil {
		s.last.next = r
	} else {
		s.first = r
	}
	s.last = r
	s.count++
	s.bytes += r.size
	if !r.sent {
		s.waiting++
	}
}

func (s *shard) remove(r *request) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		s.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		s.last = r.prev
	}
	r.prev, r.next = nil, nil
	s.count--
	s.bytes -= r.size
	if !r.sent {
		s.waiting--
	}
}

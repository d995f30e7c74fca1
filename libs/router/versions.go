package router

import (
	"github.com/roost-cluster/roost/libs/sharding"
)

// While a program is rolled out, regions with different versions of a type serve its
// shards, and the table lists the commands of all of them. This file decides what becomes
// of a command that the region with its shard does not have.

// lacking returns the refusal of the owner of the shard, if the owner is known not to have the command;
// otherwise it returns "".
func (m *Machine) lacking(s *shard, r *request) string {
	row, _ := m.table.Row(s.id)
	l := m.links[row.Owner]
	if l == nil || len(l.lacks) == 0 {
		return ""
	}
	return l.lacks[kindOf(&r.env)]
}

// learnLacking notes that the region of an attempt does not have the command. There are few such commands,
// because the router sends only commands that some region has.
func (m *Machine) learnLacking(a *attempt, why string) {
	l := m.links[a.region]
	if l == nil {
		return
	}
	name := kindOf(&a.r.env)
	if _, known := l.lacks[name]; known {
		return
	}
	if l.lacks == nil {
		l.lacks = map[kind]string{}
	}
	l.lacks[name.clone()] = why
}

// mayDefer reports whether a command that a region does not have may wait for the next owner of its shard. It
// may wait once, while the shard moves, and within a share of the limits, so that such commands cannot take
// the places of commands that every version has.
func (m *Machine) mayDefer(s *shard, r *request) bool {
	row, served := m.served(s)
	moves := m.lacking(s, r) == "" || row.Phase == sharding.HandingOff || !served && row.Phase == sharding.Serving
	switch {
	// Invariant: if the present owner of a shard runs a version that does not know a command, the command waits only
	// while the shard moves. If the next owner does not know the command either, the command is refused. All commands
	// that wait for this reason may together take only a share of the router's limits.
	// Mutants: deferred-moving, deferred-once, deferred-share
	//mutant:false deferred-once r.deferred
	//mutant:false deferred-moving !moves
	case r.deferred, !moves:
		return false
	}
	//mutant:do deferred-share return true
	ofShard, ofAll := s.deferred, m.deferred
	ofShard.add(r)
	ofAll.add(r)
	return m.cfg.deferredFit(ofShard, m.cfg.MaxWaiting, int(m.cfg.MaxWaitingBytes)) && m.cfg.deferredFit(ofAll, m.cfg.MaxTotal, int(m.cfg.MaxTotalBytes))
}

// deferredFit reports whether deferred commands are within their share of these limits.
func (c *Config) deferredFit(u usage, commands, bytes int) bool {
	return float64(u.commands) <= c.DeferredShare*float64(commands) && float64(u.bytes) <= c.DeferredShare*float64(bytes)
}

// deferRequest counts a request as deferred, until it is removed.
func (m *Machine) deferRequest(r *request) {
	if !r.deferred {
		r.deferred = true
		r.shard.deferred.add(r)
		m.deferred.add(r)
	}
}

// otherVersion returns the refusal of a command that the owner of its shard does not have.
func otherVersion(why string) sharding.Reply {
	return sharding.Reject(sharding.UnknownCommand, why+"; another version has it, so send it again later")
}

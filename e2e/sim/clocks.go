package sim

import (
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A journal with small limits expires the ids of commands within a run, and the
// clocks of its processes and clients are set forth and back. What is promised of
// an id then holds for as long as it is kept: see checker.again.
const (
	smallAge   = 2 * sec
	smallCount = 4
)

func (w *World) journalConfig() journal.Config {
	cfg := journal.DefaultConfig()
	if w.weather.Harsh.Expires {
		cfg.DedupeAge, cfg.DedupeCount = nanos(smallAge), smallCount
	}
	return cfg
}

// stepClock sets the clock of a process, by minutes to days, or right again.
func (w *World) stepClock() {
	d := w.dice("harsh clocks")
	w.processes[d.IntN(firstGateway)].wall = d.wallError()
}

// wallError is by how much a clock on the wall is wrong.
func (d dice) wallError() int64 {
	if d.chance(0.3) {
		return 0
	}
	off := d.between(60*sec, []int64{3600, 5 * 86400}[d.IntN(2)]*sec)
	if d.chance(0.5) {
		return -off
	}
	return off
}

// timedKey is a key as the clock of a client makes it, a UUID of version 7.
func (c *client) timedKey(n int) sharding.CommandID {
	at := clockStart.Add(nanos(c.w.now + c.wall)).UnixMilli()
	return sharding.CommandID(fmt.Sprintf("%08x-%04x-7000-8000-%012x", at>>16, at&0xffff, n))
}

// oldKey lets the client send an old command once more, with its key, from time
// to time where ids expire.
func (c *client) oldKey() bool {
	w, d := c.w, c.w.dice("old keys")
	if !w.weather.Harsh.Expires || len(w.ops) == 0 || !d.chance(0.1) {
		return false
	}
	i := d.IntN(len(w.ops))
	for i >= 0 && !c.mayRepeat(w.ops[i]) {
		i--
	}
	if i < 0 {
		return false
	}
	o := w.ops[i]
	w.mark("client: an old key again")
	c.openCommands = 1
	c.send(o, c.gateway, nanos(100*ms+d.exp(w.weather.Patience)))
	return true
}

// mayRepeat reports whether the client can send a command once more: it is its own, has a key, and waits for nothing.
func (c *client) mayRepeat(o *op) bool {
	return o.client == c.id && o.keyed && o.pending == 0 && o.batch == 0
}

// again reports whether a command may have taken effect twice: its id has expired,
// as old as it was and with so many newer ones. A key with a time is never.
func (c *checker) again(o *op) bool {
	if _, timed := journal.KeyTime(o.key); timed || !c.w.weather.Harsh.Expires {
		return false
	}
	p, where := c.pasts[o.entity], c.where[o.x]
	for i := 1; i < len(where); i++ {
		first, next := p.elements[where[i-1]-1], p.elements[where[i]-1]
		if next.at-first.sent < smallAge {
			return false
		}
		if next.ids-first.ids <= smallCount && !p.deletedBetween(first.at, next.at) {
			return false // only after a delete the number of newer ones does not matter
		}
	}
	c.w.mark("an id was used again after it had expired")
	return true
}

// deletedBetween reports whether the entity was deleted between two times.
func (p *past) deletedBetween(from, to int64) bool {
	return slices.ContainsFunc(p.deletes, func(t int64) bool { return from <= t && t <= to })
}

// kept reports whether an attempt of a command is over so soon that the id was kept.
func (c *checker) kept(o *op, t *try) bool {
	return !c.w.weather.Harsh.Expires || t.returned-o.called < smallAge
}

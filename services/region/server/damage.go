package server

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/node/telemetry/slowest"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sorted"
)

const (
	// damageKept is the time that a region remembers damage that it has found. Data that stays damaged is found
	// again with the next command for it.
	damageKept = time.Hour
	// maxDamage is the maximum number of damaged entities and shards that a region remembers. If there are
	// more, their number does not matter to operators any more.
	maxDamage = 1000
)

// damageLog remembers entities and shards that cannot be served, for operators. Its zero value is empty.
type damageLog struct {
	size atomic.Int64 // of found

	mu    sync.Mutex
	found map[string]trouble
}

// trouble is the last problem found with an entity or a shard.
type trouble struct {
	at   time.Time
	text string // for operators
}

// shownDamage is the number of entities that an operator is shown. The log has all.
const shownDamage = 5

// add notes what was found damaged.
func (l *damageLog) add(now time.Time, d journal.Damaged) {
	name := d.Entity.String()
	if d.Entity.Type == "" {
		name = "shard " + d.Shard.String()
	}
	l.note(now, name, name)
}

// note notes that something cannot be served.
func (l *damageLog) note(now time.Time, name, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	if l.found == nil {
		l.found = map[string]trouble{}
	}
	if _, known := l.found[name]; !known && len(l.found) >= maxDamage {
		return
	}
	l.found[name] = trouble{now, text}
	l.size.Store(int64(len(l.found)))
}

// repaired drops an entity that is served again. It costs next to nothing if nothing is noted.
func (l *damageLog) repaired(of sharding.Entity) {
	if l.size.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.found, of.String())
	l.size.Store(int64(len(l.found)))
}

// forget drops what was not found for a long time.
func (l *damageLog) forget(now time.Time) {
	for name, t := range l.found { // order-free: each is judged alone
		if now.Sub(t.at) > damageKept {
			delete(l.found, name)
		}
	}
	l.size.Store(int64(len(l.found)))
}

// list returns the number of entities and shards that were found within damageKept, and the newest of them.
func (l *damageLog) list(now time.Time) (n int, newest []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	all := sorted.By(slices.Collect(maps.Values(l.found)), func(a, b trouble) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.text, b.text)) })
	for _, t := range all[:min(len(all), shownDamage)] {
		newest = append(newest, slowest.ValidText(t.text))
	}
	return len(all), newest
}

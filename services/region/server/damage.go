package server

import (
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
)

const (
	// damageKept is how long a region remembers that it has found something damaged. What stays damaged is found
	// again with the next command for it.
	damageKept = time.Hour
	// maxDamage is how many damaged entities and shards a region remembers. If there are more, their number
	// does not matter to operators any more.
	maxDamage = 1000
)

// damageLog remembers what was found damaged in the journal, for operators. Its zero value is empty.
type damageLog struct {
	mu    sync.Mutex
	found map[string]time.Time // when it was found last
	last  string
}

// add notes what was found damaged.
func (l *damageLog) add(now time.Time, d journal.Damaged) {
	name := d.Entity.String()
	if d.Entity.Type == "" {
		name = "shard " + d.Shard.String()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	if l.found == nil {
		l.found = map[string]time.Time{}
	}
	if _, known := l.found[name]; !known && len(l.found) >= maxDamage {
		return
	}
	l.found[name], l.last = now, name
}

// forget drops what was not found damaged for a long time.
func (l *damageLog) forget(now time.Time) {
	for name, at := range l.found { // order-free: each is judged alone
		if now.Sub(at) > damageKept {
			delete(l.found, name)
		}
	}
}

// list returns how many entities and shards were found damaged within damageKept, and the newest of them.
func (l *damageLog) list(now time.Time) (n int, last string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forget(now); len(l.found) == 0 {
		return 0, ""
	}
	return len(l.found), l.last
}

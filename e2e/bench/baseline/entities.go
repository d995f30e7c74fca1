package baseline

import (
	"hash/maphash"
	"sync"
)

// entities is a sharded map with a counter per entity.
type entities struct {
	seed  maphash.Seed
	parts [64]struct {
		sync.Mutex
		byKey map[string]*uint64
		_     [40]byte // parts do not share cache lines
	}
}

func newEntities() *entities {
	e := &entities{seed: maphash.MakeSeed()}
	for i := range e.parts {
		e.parts[i].byKey = map[string]*uint64{}
	}
	return e
}

// add counts one command of an entity.
func (e *entities) add(key []byte) uint64 {
	p := &e.parts[maphash.Bytes(e.seed, key)%uint64(len(e.parts))]
	p.Lock()
	defer p.Unlock()
	n := p.byKey[string(key)]
	if n == nil {
		n = new(uint64)
		p.byKey[string(key)] = n
	}
	*n++
	return *n
}

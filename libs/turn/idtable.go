package turn

import (
	"hash/maphash" // pure: the seed decides only in which place of a table an entity is

	"github.com/roost-cluster/roost/libs/sharding"
)

// idTable finds entities by their ids. It holds the slots of the entities, and not pointers as a map would. So it
// takes little memory, the garbage collector does not look into it, and a lookup touches one line of the
// processor's cache before it comes to the entity. It is a hash table with linear probing, in parts that grow
// independently, so that no command waits until a large table has grown.
type idTable struct {
	parts [idParts]idPart
	count int
}

const (
	idPartBits  = 6
	idParts     = 1 << idPartBits
	minIDPlaces = 8 // of a part that has had an entity
)

type idPart struct {
	places []idPlace // their number is a power of two
	used   int
}

// idPlace holds an entity, if slot is not 0.
type idPlace struct{ hash, slot uint32 }

// idSeed makes the places unknown to clients, who choose the ids: else they could make lookups slow.
var idSeed = maphash.MakeSeed()

// part returns the part for an id, and the hash of the id within the part.
func (t *idTable) part(id sharding.EntityID) (*idPart, uint32) {
	hash := maphash.String(idSeed, string(id))
	return &t.parts[hash>>(64-idPartBits)], uint32(hash)
}

// find returns the entity with an id, nil if there is none.
func (t *idTable) find(id sharding.EntityID, entities slots) *entity {
	p, hash := t.part(id)
	if p.used == 0 {
		return nil
	}
	for i := p.home(hash); p.places[i].slot != 0; i = p.after(i) {
		if p.places[i].hash != hash {
			continue
		}
		if e := entities[p.places[i].slot].entity; e.id == id {
			return e
		}
	}
	return nil
}

// add adds an entity. There must be none with its id.
func (t *idTable) add(id sharding.EntityID, slot uint32) {
	p, hash := t.part(id)
	if 4*p.used >= 3*len(p.places) {
		p.grow()
	}
	p.put(idPlace{hash, slot})
	p.used++
	t.count++
}

// remove removes an entity that is there. Entities after it move up, so that no empty place is between an
// entity and its home.
func (t *idTable) remove(id sharding.EntityID, slot uint32) {
	p, hash := t.part(id)
	free := p.home(hash)
	for p.places[free].slot != slot {
		free = p.after(free)
	}
	for i := p.after(free); p.places[i].slot != 0; i = p.after(i) {
		if p.distance(p.home(p.places[i].hash), i) >= p.distance(free, i) {
			p.places[free] = p.places[i]
			free = i
		}
	}
	p.places[free] = idPlace{}
	p.used--
	t.count--
}

// home returns the place where the search for a hash begins.
func (p *idPart) home(hash uint32) uint32 { return hash & uint32(len(p.places)-1) }

func (p *idPart) after(i uint32) uint32 { return p.home(i + 1) }

// distance returns the number of places from the place from to the place to.
func (p *idPart) distance(from, to uint32) uint32 { return p.home(to - from) }

// put puts an entity into the first empty place from its home on.
func (p *idPart) put(e idPlace) {
	i := p.home(e.hash)
	for p.places[i].slot != 0 {
		i = p.after(i)
	}
	p.places[i] = e
}

// grow doubles the number of places.
func (p *idPart) grow() {
	old := p.places
	p.places = make([]idPlace, max(minIDPlaces, 2*len(old)))
	for _, e := range old {
		if e.slot != 0 {
			p.put(e)
		}
	}
}

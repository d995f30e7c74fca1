package journal

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Purging decides, record by record, what a [Purge] removes of a life that has ended. A backend
// asks it about the records up to the one that has ended the life, in their order, and stops
// at the first one that stays.
type Purging struct {
	Config *Config
	// Age is the entity's own time now: the time in its newest stored stamp, set by a record or
	// an earlier purge, plus the time since then by [Stamp.Next].
	Age  Age
	Wall time.Time
	// Newest is the newest time in a key that is expired, the zero time if there is none.
	Newest time.Time
	// Again is the time of the next look at the rest, if a record stays.
	Again time.Time
}

// Remains describes a record of an ended life.
type Remains struct {
	// Command is the command of the record if its key is still remembered, else empty.
	Command sharding.CommandID
	Age     Age       // when it was stored, in the entity's own time
	Wall    time.Time // and on the wall
	// Sending is true if not all of its sends are done: some are pending, or dead letters.
	Sending bool
}

// looks is the number of looks at an entity during [Config.DedupeAge]. The time between two
// looks of one process counts for its age, and other time does not: a process that is replaced
// costs two such pauses at most. So entities are purged even if processes are replaced as often
// as keys are expired, or a few times more often. A look that removes nothing writes two rows.
const looks = 8

// LookAt returns the latest time of the next look at a deleted entity that is not fully purged.
func (c *Config) LookAt(wall time.Time) time.Time {
	//mutant:do purge-looks return wall.Add(c.DedupeAge)
	return wall.Add(c.DedupeAge / looks)
}

// Remove reports whether a record is removed. The number of keys that an entity remembers
// does not matter: after a delete only their age counts.
func (p *Purging) Remove(r *Remains) bool {
	//mutant:false purge-sends
	if r.Sending {
		p.Again = p.Config.LookAt(p.Wall) // dead letters may stay forever
		return false
	}
	if r.Command == "" { //mutant:true purge-age
		return true
	}
	remember, what := p.Config.Drop(p.Age, r.Age, p.Wall, r.Wall, r.Command)
	switch what {
	case Expire:
		if remember.After(p.Newest) {
			p.Newest = remember
		}
		return true
	case Forever:
		p.Again = p.Wall.Add(p.Config.DedupeAge)
		return false
	}
	p.Again = p.Wall.Add(p.Config.DedupeAge - time.Duration(p.Age-r.Age)*time.Millisecond)
	if t, timed := KeyTime(r.Command); timed && t.Add(p.Config.DedupeAge).After(p.Again) {
		p.Again = t.Add(p.Config.DedupeAge)
	}
	if look := p.Config.LookAt(p.Wall); p.Again.After(look) {
		p.Again = look
	}
	if least := p.Wall.Add(time.Second); p.Again.Before(least) {
		p.Again = least
	}
	return false
}

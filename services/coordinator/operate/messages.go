package operate

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Input is one message to a [Machine]. The set is closed.
type Input interface{ input() }

// Output is a request to the driver of a machine. The set is closed.
type Output interface{ output() }

// Inputs.
type (
	// Begin is the first one.
	Begin struct{}
	// Found answers Find.
	Found struct {
		Row    sharding.Row // of the entity's shard
		Region string       // the name of its owner, for people
		// Types are the entity types that regions declare.
		Types []sharding.EntityType
		// Target is the target of the dead letter that the command would send again; empty: the
		// command sends none, or its target is not known.
		Target sharding.Entity
	}
	// NotFound answers Find if nothing is known here: this is a standby, for example, or the time is over.
	NotFound struct{ Err error }
	// Answered answers Send: the region has answered the command.
	Answered struct{ Reply sharding.Reply }
	// NotMine answers Send: the region does not serve the shard at that epoch, and has done nothing.
	NotMine struct{}
	// Failed answers Send: there is no answer. Sent is true if the region may have got the command.
	Failed struct {
		Sent bool
		Err  error
	}
	// Tick answers Wait when its time has come.
	Tick struct{}
	// CallerGone: the caller no longer waits for the result.
	CallerGone struct{}
)

// Outputs.
type (
	// Find asks where the entity is. If Target is set, it also asks for the target of the dead letter
	// that the command would send again.
	Find struct{ Target bool }
	// Allocate asks that the shard be given an owner that serves it, as a gateway would. Refused
	// is the epoch at which a region has refused the command; 0: none has.
	Allocate struct {
		Shard   sharding.ShardID
		Refused sharding.Epoch
	}
	// Send asks for one attempt, at the owner and the epoch of the row.
	Send struct{ Row sharding.Row }
	// Wait asks to be stepped at a time.
	Wait struct{ Until time.Time }
	// End is the end.
	End struct {
		Reply  sharding.Reply
		Region string // that has answered, for people; empty: none has
		// Err says instead that nothing was tried, because nothing is known here: NotFound.Err.
		Err error
	}
)

func (Begin) input()      {}
func (Found) input()      {}
func (NotFound) input()   {}
func (Answered) input()   {}
func (NotMine) input()    {}
func (Failed) input()     {}
func (Tick) input()       {}
func (CallerGone) input() {}

func (Find) output()     {}
func (Allocate) output() {}
func (Send) output()     {}
func (Wait) output()     {}
func (End) output()      {}

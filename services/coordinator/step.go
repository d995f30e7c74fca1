package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/fact"
)

// step is the Step in progress: the settings, its time, and its outputs. Nouns get it as a parameter, and append their
// outputs to it.
type step struct {
	cfg Config
	now time.Time
	out []Output // of the Step in progress
}

func (s *step) emit(o Output) { s.out = append(s.out, o) }

func (s *step) send(to sharding.NodeID, msg control.Message) { s.emit(Send{To: to, Msg: msg}) }

func (s *step) reply(call control.Call, msg control.Message) { s.emit(Reply{Call: call, Msg: msg}) }

// note is about now. Facts have times in milliseconds.
func (s *step) note(by, reason string) Note {
	return Note{By: by, Reason: reason, At: fact.Time(s.now)}
}

package operate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Machine is one command. It is not safe for concurrent use.
type Machine struct {
	cfg      Config
	deadline time.Time
	region   string         // where it was sent last
	epoch    sharding.Epoch // at which it was sent last
	sending  bool           // an attempt is in progress
	refused  sharding.Epoch // the highest epoch that a region has refused; 0: none has
	doubt    bool           // an attempt may have been applied
	last     string         // why it is not applied yet
	ended    bool
}

// New returns the machine of a command that is tried until a deadline.
func New(cfg Config, deadline time.Time) *Machine {
	return &Machine{cfg: cfg, deadline: deadline, last: "it was not found out where the entity is"}
}

// Step handles one input, and returns what the driver has to do.
func (m *Machine) Step(now time.Time, in Input) []Output {
	if m.ended {
		return nil
	}
	sending := m.sending
	m.sending = false
	switch in := in.(type) {
	case Begin:
		return m.find()
	case Tick:
		if !now.Before(m.deadline) {
			return m.late()
		}
		return m.find()
	case CallerGone:
		m.doubt = m.doubt || sending
		return m.late()
	case Found:
		return m.found(now, &in)
	case NotFound:
		if !now.Before(m.deadline) {
			return m.late()
		}
		if !m.doubt {
			m.ended = true
			return []Output{End{Err: in.Err}}
		}
		return m.wait(now, in.Err.Error())
	case Answered:
		return m.end(in.Reply, m.region)
	case NotMine:
		m.refused = max(m.refused, m.epoch)
		return m.wait(now, "the shard is moving")
	case Failed:
		m.doubt = m.doubt || in.Sent
		return m.wait(now, in.Err.Error())
	}
	return nil
}

// find looks up where the entity is. A command in doubt is not refused because of the present state of its target:
// the region that serves the entity knows better.
func (m *Machine) find() []Output { return []Output{Find{Target: !m.doubt}} }

func (m *Machine) found(now time.Time, in *Found) []Output {
	switch {
	case in.Row.Reason == sharding.Unreadable:
		return m.end(sharding.Reject(sharding.Unavailable, fmt.Sprintf(
			"not applied: no running region reads the stored data of shard %s; start one of a version that reads it, see roost rollout status", in.Row.Shard)), "")
	case in.Target.Type != "" && !m.doubt && !slices.Contains(in.Types, in.Target.Type):
		// It would only become a dead letter again. What else is against it, the region that
		// serves its sender says.
		return m.end(sharding.Reject(sharding.NotFound, fmt.Sprintf(
			"not applied: the target is %s, and no region declares the type %s; declared are %s. Start a region with that type, or drop the dead letter", in.Target, in.Target.Type, listed(in.Types))), "")
		//mutant:false operate-epoch in.Row.Epoch <= m.refused
	case in.Row.Phase != sharding.Serving || in.Row.Epoch <= m.refused:
		return append([]Output{Allocate{Shard: in.Row.Shard, Refused: m.refused}}, m.wait(now, fmt.Sprintf("no region serves shard %s at the moment", in.Row.Shard))...)
	}
	m.region, m.epoch, m.sending = in.Region, in.Row.Epoch, true
	return []Output{Send{Row: in.Row}}
}

// listed writes types for people.
func listed(types []sharding.EntityType) string {
	var names []string
	for _, t := range types {
		names = append(names, string(t))
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// wait has it tried again after a pause.
func (m *Machine) wait(now time.Time, why string) []Output {
	m.last = why
	until := now.Add(m.cfg.Pause)
	if until.After(m.deadline) {
		until = m.deadline
	}
	return []Output{Wait{Until: until}}
}

func (m *Machine) late() []Output {
	return m.end(sharding.Reject(sharding.DeadlineExceeded, "not applied within its time: "+m.last), "")
}

// end answers the operator. A refusal is about the last attempt: an earlier one may have been
// applied.
func (m *Machine) end(r sharding.Reply, region string) []Output {
	m.ended = true
	// Invariant: an operator's command is reported as refused only if no attempt can have been applied. If a region has
	// refused an epoch, the command is not sent again at this epoch.
	// Guarded by: `operate.Machine` (`services/coordinator/operate`).
	// Mutants: operate-doubt, operate-epoch, operate-timeout
	if r.Outcome == sharding.NotApplied && m.doubt { //mutant:false operate-doubt
		r = sharding.Doubt(r.Code, "it may have been applied; send it again under the same key: "+r.Message)
	}
	return []Output{End{Reply: r, Region: region}}
}

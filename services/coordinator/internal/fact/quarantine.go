package fact

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// QuarantineState is the state of an entity: whether it may run.
type QuarantineState uint8

// The states. The numbers are stored, so a number must keep its meaning.
const (
	Released    QuarantineState = iota // neither suspected nor quarantined, or not any more
	Suspected                          // its turns run, but not concurrently with another suspect
	Quarantined                        // it does not run
)

// String returns the name of the state.
func (s QuarantineState) String() string {
	switch s {
	case Released:
		return "released"
	case Suspected:
		return "suspect"
	case Quarantined:
		return "quarantined"
	}
	return "unknown"
}

// Quarantine: the entity is a suspect, or quarantined, or neither any more.
type Quarantine struct {
	Entity sharding.Entity
	State  QuarantineState
	// Command is the command that ran at the newest crash; "": the entity was started or stopped then, or an
	// operator has quarantined it without a crash.
	Command string
	// Cause is the evidence of the newest crash with evidence: what the runtime wrote, an exit status, or a full memory.
	Cause   string
	Crashes []CountedCrash // oldest first
	Note
}

// CountedCrash is a crash of a region during which the entity ran.
type CountedCrash struct {
	Process sharding.NodeUID
	Region  string // the name of the region
	At      time.Time
	// Evident is true if something shows that the process was not killed from outside.
	Evident bool
}

// Text returns why an entity is quarantined, for the senders whose commands are refused.
func (f *Quarantine) Text() string {
	return fmt.Sprintf("since %s, %s: %s. See roost entity quarantine; roost entity quarantine %s/%s --undo ends it",
		f.At.UTC().Format(time.RFC3339), cmp.Or(f.By, "unknown"), cmp.Or(f.Reason, "no reason was given"), f.Entity.Type, f.Entity.ID)
}

// Turn names what ran at the newest crash.
func (f *Quarantine) Turn() string {
	if f.Command == "" {
		return "start or stop"
	}
	return "command " + f.Command
}

// Regions lists the names of the regions that ended.
func (f *Quarantine) Regions() string {
	var names []string
	for _, c := range f.Crashes {
		names = append(names, cmp.Or(c.Region, "a region"))
	}
	return strings.Join(names, ", ")
}

// Explained returns the evidence of the newest crash, in parentheses.
func (f *Quarantine) Explained() string {
	if f.Cause == "" {
		return " (or was killed from outside)"
	}
	return " (" + f.Cause + ")"
}

// Since says since when, by whom and why an entity is quarantined.
func (f *Quarantine) Since() string {
	return fmt.Sprintf("it has been quarantined since %s, by %s: %s", f.At.UTC().Format(time.RFC3339), cmp.Or(f.By, "unknown"), cmp.Or(f.Reason, "no reason was given"))
}

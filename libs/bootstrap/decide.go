package bootstrap

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
)

// JoinDecider decides what follows from what was seen. It must answer from its
// arguments alone, and is asked often.
type JoinDecider interface {
	Decide(Info) Decision
}

// Info is what a decision is made of. The lists are sorted.
type Info struct {
	// Self is this node, by the address that it gives itself.
	Self ContactPoint
	// ContactPoints are those that discovery lists and that count, each node
	// once: by the address that it gives itself if it answered, else as listed.
	ContactPoints []ContactPoint
	// Unchanged is the time since discovery listed others.
	Unchanged time.Duration
	// Observations are the answers that are not too old, by the address that the
	// node gives itself.
	Observations []Observation
}

// Observation is the answer of one contact point.
type Observation struct {
	Point ContactPoint
	// Seeds are addresses of members of a cluster that it knows.
	Seeds []string
}

// Choice is what a JoinDecider can choose from.
type Choice uint8

// The choices.
const (
	KeepProbing Choice = iota
	JoinSelf
	JoinOtherSeedNodes
)

// String is the name of the choice.
func (c Choice) String() string {
	return [...]string{"KeepProbing", "JoinSelf", "JoinOtherSeedNodes"}[c]
}

// Decision is a choice, with the members to join through or with what is being
// waited for, in words for people.
type Decision struct {
	Choice Choice
	Seeds  []string
	Why    string
}

// maxSeeds bounds the members that a contact point names, and those that are
// asked to let a node in: one good one is enough.
const maxSeeds = 5

// LowestAddress is the usual JoinDecider. Nobody but the node with the lowest
// address forms a cluster, and that one only when nobody can see anything else.
type LowestAddress struct {
	// Required is how many contact points must have answered.
	Required int
	// StableMargin is how long the list of contact points must be the same.
	StableMargin time.Duration
	// ContactAll asks for an answer of every contact point.
	ContactAll bool
	// NewCluster allows this node to form a cluster at all.
	NewCluster bool
}

// Decide implements [JoinDecider].
func (d LowestAddress) Decide(info Info) Decision {
	var seeds []string
	for _, o := range info.Observations {
		for _, s := range o.Seeds {
			if len(seeds) < maxSeeds && !slices.Contains(seeds, s) {
				seeds = append(seeds, s)
			}
		}
	}
	if len(seeds) > 0 {
		return Decision{Choice: JoinOtherSeedNodes, Seeds: seeds, Why: "joins through " + strings.Join(seeds, ", ")}
	}
	wait := func(format string, args ...any) Decision { return Decision{Why: fmt.Sprintf(format, args...)} }
	if !d.NewCluster && !mutant.On("form-new-cluster") {
		if len(info.ContactPoints) == 0 {
			return wait("waits for a cluster to join: this node may not form one, and discovery lists nobody else who may")
		}
		return wait("waits for a cluster to join: this node may not form one, and none of %s knows of one", named(info.ContactPoints))
	}
	confirmed := make([]ContactPoint, len(info.Observations))
	for i, o := range info.Observations {
		confirmed[i] = o.Point
	}
	silent := slices.DeleteFunc(slices.Clone(info.ContactPoints), func(p ContactPoint) bool { return slices.Contains(confirmed, p) })
	switch {
	case len(confirmed) < d.Required && !mutant.On("required-contacts"):
		if len(silent) == 0 {
			return wait("waits for more contact points: %d are required, discovery lists %s", d.Required, named(info.ContactPoints))
		}
		return wait("waits for contact points: %d are required, %d answer; silent: %s", d.Required, len(confirmed), named(silent))
	case d.ContactAll && len(silent) > 0 && !mutant.On("contact-all"):
		return wait("waits for every listed contact point to answer; silent: %s", named(silent))
	case info.Unchanged < d.StableMargin && !mutant.On("stable-margin"):
		return wait("waits until the list of contact points has not changed for %v: %s", d.StableMargin, named(info.ContactPoints))
	}
	if len(confirmed) == 0 {
		return wait("waits for contact points: discovery lists %s", named(info.ContactPoints))
	}
	if lowest := slices.MinFunc(confirmed, ContactPoint.Compare); !lowest.Is(info.Self) && !mutant.On("lowest-address") {
		return wait("waits for %s to form the cluster: it has the lowest address of %s", lowest, named(confirmed))
	}
	return Decision{Choice: JoinSelf, Why: fmt.Sprintf("forms a cluster, as the lowest address of %s", named(confirmed))}
}

// named lists contact points for people; of many, the first.
func named(points []ContactPoint) string {
	if len(points) == 0 {
		return "nobody"
	}
	const most = 8
	var names []string
	for _, p := range points[:min(len(points), most)] {
		names = append(names, p.String())
	}
	if len(points) > most {
		names = append(names, fmt.Sprintf("and %d more", len(points)-most))
	}
	return strings.Join(names, ", ")
}

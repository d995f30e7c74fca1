package bootstrap

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// JoinDecider decides what a node does next. The decision must depend on the
// argument alone. Decide is called often.
type JoinDecider interface {
	Decide(Info) Decision
}

// Info is the input of a decision. The lists are sorted.
type Info struct {
	// Self is this node, by the address that it advertises.
	Self ContactPoint
	// ContactPoints are the listed ones that may form a cluster, each node once: by
	// the address that it advertises if it answered, else as listed.
	ContactPoints []ContactPoint
	// Unchanged is the time since the list of contact points changed.
	Unchanged time.Duration
	// Observations are the recent answers, by the address that the node advertises.
	Observations []Observation
}

// Observation is the answer of one contact point.
type Observation struct {
	Point ContactPoint
	// Seeds are addresses of members of a cluster that it knows.
	Seeds []string
}

// Choice is an option of a JoinDecider.
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

// Decision is a choice, with the members to join through if it is to join. Why
// explains it to people.
type Decision struct {
	Choice Choice
	Seeds  []string
	Why    string
}

// maxSeeds bounds the members that a contact point names, and those that a node
// asks to admit it: a single one is enough.
const maxSeeds = 5

// LowestAddress is the default JoinDecider. Only the node with the lowest address
// forms a cluster, and only when all others must see the same contact points.
type LowestAddress struct {
	// Required is the number of contact points that must have answered.
	Required int
	// StableMargin is the time that the list of contact points must be the same.
	StableMargin time.Duration
	// ContactAll requires an answer of every contact point.
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
	if !d.NewCluster { //mutant:false form-new-cluster
		if len(info.ContactPoints) == 0 {
			return wait("waits for a cluster to join: this node may not form one, and discovery lists no other node that may")
		}
		return wait("waits for a cluster to join: this node may not form one, and none of %s knows of one", listPoints(info.ContactPoints))
	}
	confirmed := make([]ContactPoint, len(info.Observations))
	for i, o := range info.Observations {
		confirmed[i] = o.Point
	}
	silent := slices.DeleteFunc(slices.Clone(info.ContactPoints), func(p ContactPoint) bool { return slices.Contains(confirmed, p) })
	switch {
	// Invariant: one cluster is formed, not two.
	// Guarded by: `bootstrap.LowestAddress` decides on fresh answers only
	// ([docs/running/bootstrap.md](../running/bootstrap.md)).
	// Mutants: required-contacts, stable-margin, contact-all, lowest-address, stale-observation, question-time,
	// form-new-cluster
	case len(confirmed) < d.Required: //mutant:false required-contacts
		if len(silent) == 0 {
			return wait("waits for more contact points: %d are required, discovery lists %s", d.Required, listPoints(info.ContactPoints))
		}
		return wait("waits for contact points: %d are required, %d answer; silent: %s", d.Required, len(confirmed), listPoints(silent))
	case d.ContactAll && len(silent) > 0: //mutant:false contact-all
		return wait("waits for every listed contact point to answer; silent: %s", listPoints(silent))
	case info.Unchanged < d.StableMargin: //mutant:false stable-margin
		return wait("waits until the list of contact points has not changed for %v: %s", d.StableMargin, listPoints(info.ContactPoints))
	}
	if len(confirmed) == 0 {
		return wait("waits for contact points: discovery lists %s", listPoints(info.ContactPoints))
	}
	if lowest := slices.MinFunc(confirmed, ContactPoint.Compare); !lowest.Is(info.Self) { //mutant:false lowest-address
		return wait("waits for %s to form the cluster: it has the lowest address of %s", lowest, listPoints(confirmed))
	}
	return Decision{Choice: JoinSelf, Why: fmt.Sprintf("forms a cluster, as the lowest address of %s", listPoints(confirmed))}
}

// listPoints lists the first contact points for people.
func listPoints(points []ContactPoint) string {
	if len(points) == 0 {
		return "no contact points"
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

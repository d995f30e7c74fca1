package coordinator

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// liveness keeps the regions: which are members, have registered and can be reached, which reach the journal, and what
// they host and report. It has no shards.
type liveness struct {
	regions        []region  // members, sorted by node
	testedAt       time.Time // when this coordinator last tested its journal
	testUnanswered bool      // that test is not answered
	answeredAt     time.Time // when the journal last answered
}

// region is a member, with what the membership, the region and operators have said about it
// in this term.
type region struct {
	node      sharding.NodeID
	name      string
	reachable bool
	joining   bool // not up yet
	departing bool // the region leaves the cluster, by the membership

	registered bool
	came       time.Time       // when the region registered, in this term
	shutdown   bool            // the region itself has asked for its shards to be taken, see GracefulShutdown
	draining   bool            // an operator drains the region
	stayTold   bool            // the log has said that this drain cannot end
	holdsName  bool            // of the regions with its name, this one is given shards, see holdNames
	heldUpBy   sharding.NodeID // the region that holds the name instead of this one; the log has said so
	journal    journalHealth
	table      sharding.Version // of the region's copy of the route table, when it asked last
	load       regionLoad
	version    string
	zone       string
	labels     []control.Label
	capacity   uint32
	types      []sharding.TypeDesc // sorted by type
	forms      []regionForms       // of the types, see learnForms
}

// leaving reports whether the region is on its way out, as the membership or the region itself says.
func (r *region) leaving() bool { return r.departing || r.shutdown }

// givesUpShards reports whether the region's shards are to be handed off: it is leaving or drained.
func (r *region) givesUpShards() bool { return r.leaving() || r.draining }

func (r *region) hosts(t sharding.EntityType) bool {
	_, found := searchDesc(r.types, t)
	return found
}

// unfit returns the reason why the region is given no shards of its types, or only as a last resort; 0: it is a
// candidate.
func (r *region) unfit() Against {
	switch {
	case !r.reachable || !r.registered:
		return AgainstUnreachable
	case !r.present():
		return AgainstJoining
	case r.leaving():
		return AgainstLeaving
	case !r.holdsName:
		return AgainstName
	case r.draining:
		return AgainstDraining
	case r.cutOff() || r.recovering():
		return AgainstJournal
	}
	return 0
}

// candidate reports whether the region may be given shards of its types.
func (r *region) candidate() bool { return r.unfit() == 0 }

// lastResort reports whether the region may be given shards if there is no candidate: it is one, or is drained, or has
// reached the journal again only recently.
func (r *region) lastResort() bool {
	why := r.unfit()
	return why == 0 || (why == AgainstDraining || why == AgainstJournal) && !r.cutOff()
}

// present reports whether the region is here to stay: registered, and up.
func (r *region) present() bool {
	// Invariant: a shard is given only to a region that is up. A region that is still joining or weakly up is given no
	// shards.
	// Mutants: only-up-hosts
	return r.registered && !r.joining //mutant:true only-up-hosts !r.joining
}

func (l *liveness) searchRegion(node sharding.NodeID) (int, bool) {
	return slices.BinarySearchFunc(l.regions, node, func(r region, n sharding.NodeID) int { return r.node.Compare(n) })
}

// region returns a member, or nil. The pointer is valid until the membership
// changes.
func (l *liveness) region(node sharding.NodeID) *region {
	if i, found := l.searchRegion(node); found {
		return &l.regions[i]
	}
	return nil
}

// anyRegion reports whether the function is returns true for any region.
func (l *liveness) anyRegion(is func(*region) bool) bool {
	for i := range l.regions {
		if is(&l.regions[i]) {
			return true
		}
	}
	return false
}

func (l *liveness) reachable(node sharding.NodeID) bool {
	o := l.region(node)
	return o != nil && o.reachable
}

// label names a region for people; "": no region.
func (l *liveness) label(node sharding.NodeID) string {
	if r := l.region(node); r != nil {
		return cmp.Or(r.name, node.Addr)
	}
	return node.Addr
}

// label names the region and its version for people.
func (r *region) label() string {
	if r.version == "" {
		return r.name
	}
	return r.name + " with version " + r.version
}

// hostOf returns a region that hosts the type and can be reached, nil if there is none.
func (l *liveness) hostOf(t sharding.EntityType) *region {
	for i := range l.regions {
		if r := &l.regions[i]; r.present() && r.reachable && r.hosts(t) {
			return r
		}
	}
	return nil
}

// regionsNamed returns the regions that have the given name or address.
func (l *liveness) regionsNamed(name string) (list []*region) {
	for i := range l.regions {
		if r := &l.regions[i]; name != "" && (r.name == name || r.node.Addr == name || r.node.String() == name) {
			list = append(list, r)
		}
	}
	return list
}

// maxRegionText is the length, in bytes, of the longest name or address that an error repeats. The longest
// host of an address has 253.
const maxRegionText = 300

// findRegion returns the one region with a name or address that a request has given. An address with its uid always
// belongs to one region.
func (l *liveness) findRegion(name string) (*region, error) {
	if name == "" {
		return nil, refuse(Malformed, "region is empty; give the name or the address of a region, see roost cluster status")
	}
	list, nodes := l.regionsNamed(name), []string{}
	for _, r := range list {
		if r.node.String() == name {
			return r, nil
		}
		nodes = append(nodes, r.node.String())
	}
	switch len(list) {
	case 0:
		if err := sharding.CheckText("region", name, maxRegionText); err != nil {
			return nil, refuse(Malformed, "%v", err)
		}
		return nil, refuse(NotFound, "no region %s; see roost cluster status", name)
	case 1:
		return list[0], nil
	}
	return nil, refuse(Malformed, "%q is the name of several regions; choose one of %s", name, strings.Join(nodes, ", "))
}

// isNamed reports whether a region is one of those that a request has given by name or address.
func isNamed(node sharding.NodeID, name string, given []string) bool {
	return slices.ContainsFunc(given, func(g string) bool { return g != "" && (g == name || g == node.Addr || g == node.String()) })
}

// regionName returns the name of the region that an operator means. The parameter given is the text of
// the operator: the name or the address of a present region. If no present region matches and ahead is
// set, the text is taken as the name of a region that may come.
func (l *liveness) regionName(given string, ahead bool) (string, error) {
	if err := sharding.CheckText("region", given, sharding.MaxTypeLen); err != nil {
		return "", refuse(Malformed, "%v", err)
	}
	list := l.regionsNamed(given)
	switch {
	case len(list) > 0 && list[0].name != "":
		return list[0].name, nil
	case len(list) > 0:
		return "", refuse(NotNow, "the region at %s has no name; give it one by node.name", given)
	case ahead:
		return given, nil
	}
	var here []string
	for i := range l.regions {
		here = append(here, cmp.Or(l.regions[i].name, l.regions[i].node.Addr))
	}
	slices.Sort(here)
	text := "none is here"
	if len(here) > 0 {
		text = "here are " + strings.Join(slices.Compact(here), ", ")
	}
	return "", refuse(NotFound, "no region is called %s; %s. To name a region that is not here yet, set ahead", given, text)
}

// commandsOfRegions returns the commands of a type that the regions besides one have, and
// whether any of them hosts the type.
func (l *liveness) commandsOfRegions(t sharding.EntityType, besides sharding.NodeID) (all []sharding.CommandDesc, hosted bool) {
	for i := range l.regions {
		r := &l.regions[i]
		if d, found := searchDesc(r.types, t); found && r.node != besides {
			all, hosted = join(all, r.types[d].Commands), true
		}
	}
	return all, hosted
}

// takenByAnother reports whether a region can take a shard with these forms from another one. It ends with the first
// such region: it runs for every type of every region.
func (l *liveness) takenByAnother(t sharding.EntityType, from sharding.NodeID, forms sharding.FormSet) bool {
	for i := range l.regions {
		if r := &l.regions[i]; r.node != from && r.candidate() && r.readable(t, forms) {
			return true
		}
	}
	return false
}

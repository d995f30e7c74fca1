package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// Setup is how a process has described itself.
type Setup struct {
	*inspectionv1.Process
	// Clock is the lead of the process's clock over the clock of the process that asked, at least. It cannot be
	// known exactly, because the answer took some time. Negative: the clock is behind.
	Clock time.Duration
}

// storeAhead returns the lead of the clock of the journal's store over the clock of the process that asked.
func (p *Setup) storeAhead() (ahead time.Duration, known bool) {
	return p.Clock + time.Duration(p.StoreNowUnixMs-p.NowUnixMs)*time.Millisecond, p.StoreNowUnixMs != 0
}

// SilentProcess is a process that has not answered.
type SilentProcess struct{ Role, Name, Reason string }

// UnreadableShards are shards of a type that no region can be given.
type UnreadableShards struct {
	Type   string
	Shards int
	Reason string
}

// LostRegion is a region that was declared down and has not come back.
type LostRegion struct {
	Name   string
	Ago    time.Duration
	Reason string // empty: not known
}

// Cluster holds the observations of a cluster.
type Cluster struct {
	Processes []Setup
	Silent    []SilentProcess
	Active    string // name of the active coordinator
	// FactsMissing is an entity that had records when the active coordinator found no facts in the journal; empty: it
	// found facts, or an empty journal.
	FactsMissing string
	// RowsDeleted describes rows of the coordinators that the active coordinator found deleted from the journal, which
	// was RowsDeletedAgo; empty: none.
	RowsDeleted    string
	RowsDeletedAgo time.Duration
	// Quarantined are entities that do not run. Suspects run, but not concurrently.
	Quarantined, Suspects []string
	Unreadable            []UnreadableShards
	// Homeless is the number of shards that have no region. HomelessLongest is the shard that has had none for the
	// longest time, which is HomelessFor.
	Homeless        int
	HomelessLongest string
	HomelessFor     time.Duration
	// Rollout is the target version while regions of another version run too; empty: no rollout is on. RolloutStill
	// is the time since a region last came or went.
	Rollout      string
	RolloutStill time.Duration
	Lost         []LostRegion
	// Regions is the number of regions that have reported their load. Load is the sum of these loads, in processors.
	// Shards are the shards with the highest loads.
	Regions int
	Load    float64
	Shards  []LoadedShard
}

// LoadedShard is a shard, its region, and its load in processors.
type LoadedShard struct {
	Shard, Region string
	Load          float64
}

// Advice names something that is unsafe or unwise.
type Advice struct {
	Name, Severity string
	Text, Next     string   // a sentence about it, and the next step for an operator
	Processes      []string // names of those that it is about; none: the cluster
}

// The severities.
const (
	Danger  = "danger"  // data or the whole service may be lost, or anybody may do anything
	Warning = "warning" // a single failure, or what comes soon, stops the service
	Note    = "note"    // worth knowing
)

// Thresholds of the rules.
const (
	// clockSkew is the largest difference of clocks without advice. Synchronized clocks differ by some
	// milliseconds, and idempotency keys and tokens are judged by clocks.
	clockSkew = 500 * time.Millisecond
	// nearMemory, nearConnections and nearDisk are shares of a limit that leave little room for a peak.
	nearMemory, nearConnections, nearDisk = 0.9, 0.8, 0.9
	// A shard is hot if its load is at least HotShard processors, and more than hotShare times the average load of a
	// region: then a region with this shard alone has too much.
	HotShard, hotShare = 0.5, 1.25
	// certificateSoon is long enough that a certificate which is renewed automatically has been renewed by then.
	certificateSoon = 14 * 24 * time.Hour
	// certificateLast is the rest of a certificate's life that makes an operator act on the same
	// day.
	certificateLast = 24 * time.Hour
	// namedEntities is the largest number of entities that a text names.
	namedEntities = 5
	// homelessLong is the time that a shard may have no region. A move, or the loss of a region, takes some
	// seconds.
	homelessLong = time.Minute
	// rolloutLong is the time that a rollout may stand still. Most pauses between two regions, or after a canary, are
	// shorter.
	rolloutLong = time.Hour
	// lostLately is the time that a lost region is mentioned: over a weekend.
	lostLately = 72 * time.Hour
)

// rule finds one kind of advice. Advice with the same severity comes in the order of the rules.
type rule struct {
	name string
	find func(*exam)
}

var rules = []rule{
	{"process-silent", (*exam).silent},
	{"tls-off", (*exam).tls},
	{"peers-not-verified", (*exam).peers},
	{"no-authentication", (*exam).authentication},
	{"public-plain", (*exam).public},
	{"no-policy", (*exam).policy},
	{"management-open", (*exam).management},
	{"management-unguarded", (*exam).unguarded},
	{"management-plain", (*exam).managementPlain},
	{"pprof-open", (*exam).pprof},
	{"roles-not-required", (*exam).anyRole},
	{"certificates-shared", (*exam).shared},
	{"payloads-shown", (*exam).payloads},
	{"commands-tried", (*exam).commandsTried},
	{"certificate-expires", (*exam).certificates},
	{"certificate-refused", (*exam).refused},
	{"one-coordinator", (*exam).coordinators},
	{"no-standby", (*exam).standby},
	{"one-region", (*exam).regions},
	{"one-gateway", (*exam).gateways},
	{"one-host", (*exam).oneHost},
	{"no-zones", (*exam).zones},
	{"sqlite-several-hosts", (*exam).sqlite},
	{"journal-in-memory", (*exam).memoryJournal},
	{"journal-warning", (*exam).journal},
	{"disk-nearly-full", (*exam).disk},
	{"lease-unusable", (*exam).lease},
	{"clocks-apart", (*exam).clocks},
	{"version-skew", (*exam).versions},
	{"memory-nearly-full", (*exam).memory},
	{"memory-unlimited", (*exam).unlimited},
	{"connections-nearly-full", (*exam).connections},
	{"region-nearly-full", (*exam).commands},
	{"entity-quarantined", (*exam).quarantined},
	{"entity-suspected", (*exam).suspects},
	{"shard-unreadable", (*exam).unreadable},
	{"shard-without-region", (*exam).homeless},
	{"data-damaged", (*exam).damaged},
	{"entity-not-alive", (*exam).notAlive},
	{"facts-missing", (*exam).factsMissing},
	{"rows-deleted", (*exam).rowsDeleted},
	{"rollout-unfinished", (*exam).rollout},
	{"region-lost", (*exam).lost},
	{"hot-shard", (*exam).hotShards},
}

// AdviceNames lists the names of all advice.
func AdviceNames() (names []string) {
	for _, r := range rules {
		names = append(names, r.name)
	}
	return names
}

// exam collects the advice about some evidence.
type exam struct {
	*Cluster
	rule string // the name of the rule that is being applied
	list []Advice
}

// Examine returns what is unsafe or unwise, the most severe first.
func Examine(e *Cluster) []Advice {
	x := &exam{Cluster: e}
	for _, r := range rules {
		x.rule = r.name
		r.find(x)
	}
	order := []string{Danger, Warning, Note}
	slices.SortStableFunc(x.list, func(a, b Advice) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
	return x.list
}

// say adds advice about some processes, or about the cluster if none are named.
func (x *exam) say(severity string, processes []string, next, format string, args ...any) {
	slices.Sort(processes)
	x.list = append(x.list, Advice{Name: x.rule, Severity: severity, Processes: processes, Next: next, Text: fmt.Sprintf(format, args...)})
}

// sayOf adds the same advice about several processes, if there are any.
func (x *exam) sayOf(processes []string, severity, next, text string) {
	if len(processes) > 0 {
		x.say(severity, processes, next, "%s", text)
	}
}

// which returns the names of the processes that meet a condition.
func (x *exam) which(applies func(p *Setup) bool) (names []string) {
	for i := range x.Processes {
		if p := &x.Processes[i]; applies(p) {
			names = append(names, p.Name)
		}
	}
	return names
}

// all returns the names of the processes with a role.
func (x *exam) all(role string) []string {
	return x.which(func(p *Setup) bool { return p.Role == role })
}

// days returns a time as an operator reads it: in minutes, hours or days.
func days(d time.Duration) string {
	if d < 2*time.Hour {
		if d.Round(time.Minute) == time.Minute {
			return "1 minute"
		}
		return fmt.Sprintf("%.0f minutes", d.Minutes())
	}
	if d < 48*time.Hour {
		return fmt.Sprintf("%.0f hours", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// count returns a number with its noun.
func count(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", several)
}

// someOf names entities, but not too many.
func someOf(list []string) string {
	names := slices.Clone(list[:min(len(list), namedEntities)])
	if more := len(list) - namedEntities; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

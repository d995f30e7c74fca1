package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// Finding is the name of a finding.
type Finding string

// The findings. If several apply, those that come first here are listed first: a finding comes before what follows
// from it.
const (
	UnknownType       Finding = "unknown-type"
	NoRegion          Finding = "no-region"
	Unreadable        Finding = "unreadable"
	TableStale        Finding = "table-stale"
	OwnerUnreachable  Finding = "owner-unreachable"
	OwnerPaused       Finding = "owner-paused"
	OwnerFails        Finding = "owner-fails"
	JournalRefuses    Finding = "journal-refuses"
	JournalSilent     Finding = "journal-silent"
	JournalSlow       Finding = "journal-slow"
	EntityQuarantined Finding = "entity-quarantined"
	EntityDamaged     Finding = "entity-damaged"
	EntityFails       Finding = "entity-fails"
	WaitsForEntity    Finding = "waits-for-entity"
	HandlerStuck      Finding = "handler-stuck"
	MailboxFull       Finding = "mailbox-full"
	RegionFull        Finding = "region-full"
	RegionBusy        Finding = "region-busy"
	HandingOff        Finding = "shard-handing-off"
	Starting          Finding = "shard-starting"
	NoCoordinator     Finding = "no-coordinator"
	GatewayFull       Finding = "gateway-full"
	GatewaySilent     Finding = "gateway-silent"
	Busy              Finding = "busy"
	// These do not keep commands from being executed.
	Active      Finding = "active"
	Passivated  Finding = "passivated"
	Absent      Finding = "absent"
	Unallocated Finding = "unallocated"
	Undecided   Finding = "undecided"
)

// order has the findings in the same order.
var order = []Finding{
	UnknownType, NoRegion, Unreadable, TableStale, OwnerUnreachable, OwnerPaused, OwnerFails, JournalRefuses, JournalSilent, JournalSlow,
	EntityQuarantined, EntityDamaged, EntityFails, WaitsForEntity, HandlerStuck, MailboxFull, RegionFull, RegionBusy, HandingOff, Starting, NoCoordinator,
	GatewayFull, GatewaySilent, Busy, Active, Passivated, Absent, Unallocated, Undecided,
}

// Findings lists the names of all findings.
func Findings() []Finding { return slices.Clone(order) }

// inquest collects findings about some evidence.
type inquest struct {
	*Evidence
	list []ranked

	// coordinator is the active coordinator if it has answered, otherwise a coordinator that has not; nil: none was
	// asked. said is the answer of the active coordinator.
	coordinator *Party
	said        *inspectionv1.CoordinatorObservation
	row         *inspectionv1.ObservedRow // the newest row that is known; nil: none is
	owner, next *Party                    // the owner in the row, and the next owner; nil: the row names none
}

// ranked is a finding with its rank among the others.
type ranked struct {
	*diagnosisv1.Finding
	rank int // in order
}

// Of returns what keeps a command for an entity from being executed. There is at least one finding, and the
// first one is the verdict.
func Of(e *Evidence) []*diagnosisv1.Finding {
	q := &inquest{Evidence: e}
	q.findCoordinator()
	q.findRow()
	q.types()
	q.tables()
	q.shard()
	if q.owner != nil {
		q.region(q.owner)
	}
	q.gateways()
	q.conclude()
	var out []*diagnosisv1.Finding
	for _, f := range q.list {
		out = append(out, f.Finding)
	}
	return out
}

// find adds a finding. blocks is true if it keeps commands from being executed. next is the next step for an
// operator.
func (q *inquest) find(c Finding, blocks bool, since time.Duration, next, format string, args ...any) {
	q.list = append(q.list, ranked{&diagnosisv1.Finding{
		Name: string(c), Blocks: blocks, SinceMs: since.Milliseconds(), Next: next, Text: fmt.Sprintf(format, args...),
	}, slices.Index(order, c)})
}

// findAt is find for a finding about one gateway. It does not hold up commands that other gateways send, so it comes
// after findings that hold up all commands, unless the operator has asked this gateway.
func (q *inquest) findAt(p *Party, c Finding, blocks bool, since time.Duration, next, format string, args ...any) {
	q.find(c, blocks, since, next, format, args...)
	if !p.Asker {
		last := &q.list[len(q.list)-1]
		last.rank = max(last.rank, slices.Index(order, GatewayFull))
	}
}

// blocked reports whether something keeps commands from being executed.
func (q *inquest) blocked() bool {
	return slices.ContainsFunc(q.list, func(f ranked) bool { return f.Blocks })
}

func (q *inquest) findCoordinator() {
	for i := range q.Parties {
		p := &q.Parties[i]
		c := p.Said.GetCoordinator()
		switch {
		case p.Role != Coordinator:
		case c.GetActive():
			q.coordinator, q.said = p, c
			return
		case c == nil: // perhaps the active one: it is silent
			q.coordinator = p
		}
	}
}

// findRow finds the newest row of the shard, and its regions. If the active coordinator has answered, only its row
// counts, because no region may serve a shard by any other row.
func (q *inquest) findRow() {
	if q.row = q.said.GetRow(); q.said == nil {
		for i := range q.Parties {
			if r := q.Parties[i].Said.GetGateway().GetRow(); r != nil && (q.row == nil || r.Epoch > q.row.Epoch) {
				q.row = r
			}
		}
	}
	if q.row.GetOwner() != "" {
		q.owner = q.party(Region, q.row.Owner, q.row.Uid)
	}
	if q.said.GetNextAddr() != "" {
		q.next = q.party(Region, q.said.NextAddr, q.said.NextUid)
	}
}

func (q *inquest) party(role Role, addr string, uid uint64) *Party {
	for i := range q.Parties {
		if p := &q.Parties[i]; p.Role == role && p.Addr == addr && (p.UID == 0 || uid == 0 || p.UID == uid) {
			return p
		}
	}
	return nil
}

// types checks that some region hosts the type.
func (q *inquest) types() {
	c := q.said
	switch {
	case c == nil:
		for i := range q.Parties {
			if g := q.Parties[i].Said.GetGateway(); g != nil && g.Table && !g.TypeKnown {
				q.find(UnknownType, true, 0, "check the name of the type; roost shard ls lists those that regions have registered", "no region has ever registered the entity type %s, as far as %s knows", q.Type, q.Parties[i].Name)
				return
			}
		}
	case !c.TypeKnown:
		declared := "none is registered yet"
		if len(c.Types) > 0 {
			declared = "registered are " + strings.Join(c.Types, ", ")
		}
		q.find(UnknownType, true, 0, "check the name of the type, or start a region that has it", "no region has ever registered the entity type %s; %s", q.Type, declared)
	case c.Hosts == 0:
		q.find(NoRegion, true, 0, "start a region whose program has the entity type "+q.Type+" (region.types must not leave it out)", "no registered region hosts the entity type %s", q.Type)
	}
}

// shard checks the row of the shard.
func (q *inquest) shard() {
	c, since := q.said, ms(q.said.GetSinceMs())
	if q.said == nil && q.coordinator != nil || q.coordinator == nil && q.row.GetPhase() != "serving" {
		q.noCoordinator()
	}
	switch {
	case q.row == nil || c != nil && c.Hosts == 0 || c != nil && !c.TypeKnown:
	case q.row.Unreadable:
		version := "the version that has stored it"
		if by := c.GetBy(); len(by) > 0 {
			version = strings.Join(by, " or ")
		}
		forms := strings.Join(c.GetForms(), "; ")
		q.find(Unreadable, true, since, "start a region of "+version+", or of another version that reads it; if the region that had the shard crashed, roost rollout look finds out which forms it stored",
			"no region reads all that may be stored in %s%s", q.shardName(), prefixed(": no region reads ", forms))
	case q.row.Phase == "handing-off":
		q.handingOff(since)
	case q.row.Phase == "starting":
		q.starting(since)
	case q.row.Phase != "serving":
		q.unallocated()
	}
}

func prefixed(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

func (q *inquest) shardName() string { return fmt.Sprintf("%s/%d", q.Type, q.row.GetIndex()) }

// noCoordinator reports that no coordinator decides about shards. It blocks only shards that are not served.
func (q *inquest) noCoordinator() {
	blocks := q.row.GetPhase() != "serving"
	who, do := "no coordinator is known", "look at the coordinators' logs and readiness (/readyz?verbose); another one takes over when the lease has run out"
	without := slices.IndexFunc(q.Parties, func(p Party) bool { return p.Said.GetCoordinator().GetLease() != "" })
	switch p := q.coordinator; {
	case p != nil:
		who = "the coordinator " + p.Name + " " + p.words()
	case without >= 0:
		p := &q.Parties[without]
		who, do = "no coordinator is active, "+p.Name+" cannot use the lease: "+p.Said.GetCoordinator().GetLease(), "make the store of the lease (lease.url) usable; coordinators try again automatically"
	}
	q.find(NoCoordinator, blocks, 0, do, "%s: shards are neither started nor moved%s", who, cond(!blocks, ", and those that are served go on"))
}

// words returns why a party has not answered, in words.
func (p *Party) words() string {
	switch p.Result {
	case Refused:
		return "does not run: no process listens at " + p.Addr
	case Silent:
		return "does not answer, though its host takes connections for it"
	case Unreached:
		return "cannot be reached: its host does not answer"
	case Failed:
		return "cannot answer: " + p.Error
	}
	return "has answered"
}

func cond(so bool, text string) string {
	if so {
		return text
	}
	return ""
}

func (q *inquest) handingOff(since time.Duration) {
	c := q.said
	owner := cmp.Or(c.GetOwner(), q.row.Owner)
	if c.GetReleased() {
		q.find(HandingOff, true, since, "it ends when "+c.Next+" has claimed the shard", "%s moves from %s to %s, which is to claim it%s%s", q.shardName(), owner, c.Next, because(": ", c.Cause), ago(since))
		if q.next != nil && q.next.Result != Answered {
			q.reach(q.next, c.NextMember)
		}
		return
	}
	why := "it finishes the commands that it has accepted"
	if r := q.owner.observation(); r != nil && r.Entity.GetRunning() != "" {
		why = fmt.Sprintf("its turn %s has been running for %s", r.Entity.Running, ms(r.Entity.RunningMs))
	}
	q.find(HandingOff, true, since, "it ends automatically: what has not finished within region.drain_timeout is cancelled. roost entity ls --running-longer 1s lists turns that hold it up",
		"%s leaves %s%s, and commands wait for its next owner: %s%s", q.shardName(), owner, because(" ", c.GetCause()), why, ago(since))
}

func ago(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return ", since " + d.Round(time.Millisecond).String()
}

func (q *inquest) starting(since time.Duration) {
	c := q.said
	owner := cmp.Or(c.GetOwner(), q.row.Owner)
	state := "it is to claim it in the journal"
	switch r := q.owner.observation(); {
	case r == nil:
	case r.Shard == "claiming" && r.ClaimRepeated:
		state = "its claim in the journal has failed and is repeated"
	case r.Shard == "claiming":
		state = "it claims it in the journal"
	case r.Shard == "fetching":
		state = "it fetches the states of the entities that " + cmp.Or(c.GetKeptBy(), "the previous owner") + " has kept (at most region.kept_wait)"
	case r.Shard == "serving":
		state = "it serves it, and the coordinator has not stored that yet"
	}
	q.find(Starting, true, since, "it ends automatically, or the shard goes to another region", "%s starts at %s%s: %s%s", q.shardName(), owner, because(" ", c.GetCause()), state, ago(since))
}

func (q *inquest) unallocated() {
	c := q.said
	switch {
	case c == nil:
		q.find(Starting, q.waiting() > 0, 0, "", "%s has no region, as far as is known without a coordinator", q.shardName())
	case c.MinRegions > 0:
		q.find(Starting, true, 0, fmt.Sprintf("start more regions, or lower coordinator.min_regions (%d)", c.MinRegions), "%s has no region: none is given a shard before %d regions are up", q.shardName(), c.MinRegions)
	case c.Recovering:
		q.find(Starting, true, 0, "it ends automatically", "%s has no region: the new coordinator waits for the owners of earlier terms", q.shardName())
	case c.Usable == 0:
		q.find(NoRegion, true, 0, "roost cluster status shows what is wrong with them: unreachable, leaving, or without their journal", "%d regions host the entity type %s, and none of them can be given shards now", c.Hosts, q.Type)
	case q.waiting() > 0:
		q.find(Starting, true, 0, "it ends automatically", "%s has no region yet, and commands wait for it", q.shardName())
	default:
		q.find(Unallocated, false, 0, "", "%s has no region yet: its first command gives it one", q.shardName())
	}
}

// waiting returns how many commands of the shard wait at gateways.
func (q *inquest) waiting() (n uint32) {
	for i := range q.Parties {
		n += q.Parties[i].Said.GetGateway().GetWaiting()
	}
	return n
}

// conclude adds the state of the entity if nothing blocks it, and sorts the findings.
func (q *inquest) conclude() {
	if !q.blocked() && len(q.list) == 0 || !q.blocked() && q.row.GetPhase() == "serving" {
		q.sound()
	}
	slices.SortStableFunc(q.list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.group(), b.group()), cmp.Compare(a.rank, b.rank), cmp.Compare(b.SinceMs, a.SinceMs))
	})
}

// group sorts findings that block before the state of the entity, and that before all others.
func (f ranked) group() int {
	switch {
	case f.Blocks:
		return 0
	case f.rank >= slices.Index(order, Active):
		return 1
	}
	return 2
}

// sound adds the state of an entity that nothing keeps from executing commands.
func (q *inquest) sound() {
	r := q.owner.observation()
	name := q.Type + "/" + q.ID
	switch {
	case r == nil:
		q.find(Undecided, false, 0, "ask again, or another coordinator or gateway", "the state of %s could not be found out: no process knows which region has it", name)
	case r.Entity != nil:
		q.find(Active, false, 0, "", "%s is in memory at %s and executes commands", name, q.owner.Name)
	case r.Stored == "stored":
		q.find(Passivated, false, 0, "", "%s is not in memory; the next command has %s load it (up to record %d)", name, q.owner.Name, r.Record)
	case r.Stored == "none" && r.Volatile:
		q.find(Absent, false, 0, "", "%s is not in memory, and its type is volatile: the next command has %s make it", name, q.owner.Name)
	case r.Stored == "none":
		q.find(Absent, false, 0, "", "nothing is stored of %s: the first command has %s create it", name, q.owner.Name)
	default:
		q.find(Undecided, false, 0, "ask again", "%s is not in memory at %s, and the journal did not say in time whether anything is stored of it", name, q.owner.Name)
	}
}

// observation returns the answer of a region; nil: there is none.
func (p *Party) observation() *inspectionv1.RegionObservation {
	if p == nil {
		return nil
	}
	return p.Said.GetRegion()
}

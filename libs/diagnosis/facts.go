package diagnosis

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// Facts returns what a party has answered, in words: one text for each fact.
func Facts(p *Party) (facts []string) {
	add := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	if p.Result != Answered {
		return []string{"it " + p.words()}
	}
	if g := p.Said.GetGateway(); g != nil {
		gatewayFacts(g, add)
	}
	if c := p.Said.GetCoordinator(); c != nil {
		coordinatorFacts(c, add)
	}
	if r := p.Said.GetRegion(); r != nil {
		regionFacts(r, add)
	}
	if j := p.Said.GetJournal(); j != nil {
		journalFacts(j, add)
	}
	return facts
}

func rowText(r *inspectionv1.ObservedRow) string {
	switch {
	case r == nil:
		return "no row"
	case r.Unreadable:
		return fmt.Sprintf("shard %d: unreadable", r.Index)
	case r.Owner == "":
		return fmt.Sprintf("shard %d: %s", r.Index, r.Phase)
	}
	return fmt.Sprintf("shard %d: %s at %s, epoch %s", r.Index, r.Phase, r.Owner, epochText(r.Epoch))
}

func gatewayFacts(g *inspectionv1.GatewayObservation, add func(string, ...any)) {
	if g.Row != nil {
		add("%s", rowText(g.Row))
	}
	if g.HeardMs >= 0 {
		add("its route table was confirmed %s ago", ms(g.HeardMs))
	}
	if g.Complaint != "" {
		add("the last question for the table failed: %s", g.Complaint)
	}
	if n := g.Waiting + g.Sent; n > 0 {
		add("commands of the shard: %d wait, %d are sent and not answered, the oldest for %s", g.Waiting, g.Sent, ms(g.OldestMs))
	}
	if g.Row.GetOwner() != "" && !g.Link {
		add("it is not connected to the owner")
	}
	if g.Refusal != "" {
		add("a command was refused last because: %s", g.Refusal)
	}
}

func coordinatorFacts(c *inspectionv1.CoordinatorObservation, add func(string, ...any)) {
	if !c.Active {
		add("it stands by; active is %s", cmp.Or(c.ActiveAddr, "none, as far as it knows"))
		if c.Lease != "" {
			add("it cannot use the lease: %s", c.Lease)
		}
		return
	}
	if c.Row != nil {
		r := rowText(c.Row)
		if c.Owner != "" {
			r = strings.Replace(r, c.Row.Owner, c.Owner+" ("+c.Row.Owner+")", 1)
		}
		if c.SinceMs > 0 {
			r += ", for " + ms(c.SinceMs).String()
		}
		add("%s%s", r, because(", ", c.Cause))
	}
	if c.Next != "" {
		add("the shard goes to %s%s", c.Next, cond(c.Released, ", which may claim it"))
	}
	add("%d registered regions host the type, %d of them can be given shards", c.Hosts, c.Usable)
	if m := c.Member; m != nil {
		reach := "reachable"
		if !m.Reachable {
			reach = "unreachable for " + ms(m.UnreachableMs).String()
		}
		add("the owner is %s, %s%s%s", m.Status, reach, cond(!m.Registered, ", not registered"), cond(m.Draining, ", being drained"))
		if m.Journal != "" && m.Journal != "answers" {
			add("the owner reports that its journal is %s", m.Journal)
		}
	}
	if c.Handoffs > 0 {
		add("%d of at most %d handoffs are in progress", c.Handoffs, c.MaxHandoffs)
	}
	if c.HeldBack != "" {
		add("%s", c.HeldBack)
	}
}

func regionFacts(r *inspectionv1.RegionObservation, add func(string, ...any)) {
	switch {
	case !r.TypeHosted:
		add("it does not host the type")
		return
	case !r.Core:
		add("what executes the commands of the shard has not answered")
		return
	case r.Shard == "":
		add("it does not hold the shard%s", cond(r.MinEpoch > 0, ", and refuses it below epoch "+epochText(r.MinEpoch)))
	default:
		add("it holds the shard: %s, epoch %s%s", r.Shard, epochText(r.Epoch), cond(r.Buffered > 0, fmt.Sprintf(", %d commands wait", r.Buffered)))
	}
	if e := r.Entity; e != nil {
		add("the entity is %s, %d of at most %d commands in its mailbox, record %d%s", e.State, e.Mailbox, r.MailboxLimit, e.Record, cond(e.Staged > e.Record, fmt.Sprintf(" (up to %d is being written)", e.Staged)))
		if e.Running != "" {
			add("%s has been running for %s%s", e.Running, ms(e.RunningMs), cond(e.WaitsForType != "", ", and waits for "+e.WaitsForType+"/"+e.WaitsForId))
		}
	} else if r.Stored != "" {
		add("the entity is not in memory; %s%s", storedText(r.Stored), prefixed(": ", r.Failure))
	}
}

func journalFacts(j *inspectionv1.JournalObservation, add func(string, ...any)) {
	text := "its journal"
	if j.State != "" {
		text += " " + j.State
	}
	if j.HeardMs >= 0 {
		text += fmt.Sprintf(", last success %s ago", ms(j.HeardMs))
	}
	text += fmt.Sprintf(", %d operations wait", j.Queued)
	if j.CommittingMs > 0 {
		text += fmt.Sprintf(", a commit has taken %s so far", ms(j.CommittingMs))
	}
	if j.SlowestMs > 0 {
		text += fmt.Sprintf(", the slowest lately %s", ms(j.SlowestMs))
	}
	add("%s", text)
	if j.Failure != "" {
		add("%s", j.Failure)
	}
	if j.FenceRead {
		add("the fence is at epoch %s", epochText(j.FenceEpoch))
	}
}

// storedText returns in words what a region has found stored of an entity that is not in memory.
func storedText(found string) string {
	switch found {
	case "stored":
		return "its stored data can be read"
	case "none":
		return "nothing is stored of it"
	case "damaged":
		return "its stored data is damaged"
	}
	return "it cannot be brought to life" // "failed"
}

// because returns the reason for the place of a shard, in the words of the other commands; nothing
// without a cause.
func because(before, cause string) string {
	if cause == "" {
		return ""
	}
	return before + "because " + sharding.CauseText(cause)
}

package diagnosis

import (
	"cmp"
	"fmt"
	"time"

	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// reach reports that a region does not answer, and its state in the membership.
func (q *inquest) reach(p *Party, m *inspectionv1.ObservedMember) {
	verdict, since := "", time.Duration(0)
	switch {
	case q.said == nil:
		verdict = "; no coordinator could be queried about the membership"
	case m == nil:
		verdict = "; the membership has removed it"
	case m.Reachable && m.Status == "up":
		verdict = "; the membership has not noticed anything yet"
	case m.Reachable:
		verdict = "; for the membership it is " + m.Status
	default:
		since = ms(m.UnreachableMs)
		verdict = fmt.Sprintf("; for the membership it is %s and unreachable%s", m.Status, prefixed(" for ", span(since)))
	}
	wait := "its shards go to other regions as soon as the coordinator has noticed it"
	switch p.Result {
	case Refused:
		q.find(OwnerUnreachable, true, since, "start the region again, or wait: "+wait, "the region %s of %s does not run: no process listens at %s%s", p.Name, q.shardName(), p.Addr, verdict)
	case Unreached:
		q.find(OwnerUnreachable, true, since, "look at the network and the host of "+p.Name+"; "+wait, "the region %s of %s cannot be reached at %s: its host does not answer%s", p.Name, q.shardName(), p.Addr, verdict)
	case Silent:
		q.find(OwnerPaused, true, since, "look whether "+p.Name+" is stopped, swaps, or has no processor; "+wait, "the region %s of %s does not answer, though its host takes connections for it: it is paused or starved%s", p.Name, q.shardName(), verdict)
	case Failed:
		q.find(OwnerFails, true, 0, "if it was started again, the shard moves automatically; otherwise look at its log", "the region %s of %s cannot answer: %s", p.Name, q.shardName(), p.Error)
	}
}

func span(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return d.Round(time.Millisecond).String()
}

// region checks the owner.
func (q *inquest) region(p *Party) {
	if p.Result != Answered {
		if !q.said.GetReleased() { // else it is the next owner's turn
			q.reach(p, q.said.GetMember())
		}
		q.journalOf(q.coordinator) // no other party can report on the journal
		return
	}
	q.journalOf(p)
	r := p.observation()
	switch {
	case r == nil:
	case !r.Core:
		q.find(RegionBusy, true, 0, "look at the load of "+p.Name+" (roost cluster top) and whether it has processors", "the region %s runs, and what executes the commands of %s has not answered", p.Name, q.shardName())
	default:
		q.held(p, r)
		q.entity(p, r)
		if r.CommandsLimit > 0 && r.Commands >= r.CommandsLimit {
			q.find(RegionFull, true, 0, "send less, or let more regions share the load; region.commands is the limit", "the region %s has as many commands as it may: %d", p.Name, r.Commands)
		}
	}
}

// held checks that the owner in the row holds the shard.
func (q *inquest) held(p *Party, r *inspectionv1.RegionObservation) {
	epoch := q.row.Epoch
	switch {
	case q.row.Phase != "serving":
	case r.Damaged:
		q.find(JournalRefuses, true, 0, "roost journal check lists the damage", "who owns %s cannot be read: the fence is damaged, and %s refuses every command of the shard", q.shardName(), p.Name)
	case r.Shard == "" && ms(q.said.GetSinceMs()) < BehindAfter && q.said.GetSinceMs() > 0: // a moment after the move
	case r.Shard == "":
		q.find(OwnerFails, true, 0, "it ends automatically: the coordinator queries the owner about commands that it refuses", "%s does not hold %s, though the row names it as serving (minimum epoch %s)", p.Name, q.shardName(), epochText(r.MinEpoch))
	case r.Shard != "serving" && r.Epoch == epoch:
		q.find(HandingOff, true, 0, "it ends automatically", "%s is in %s at %s, though the row is serving", q.shardName(), r.Shard, p.Name)
	}
}

func epochText(e uint64) string { return fmt.Sprintf("%d.%d", e>>32, e&0xffffffff) }

// entity checks the entity in its region.
func (q *inquest) entity(p *Party, r *inspectionv1.RegionObservation) {
	e, name := r.Entity, q.Type+"/"+q.ID
	repair := fmt.Sprintf("roost journal repair record %s/%s lists the damage, and what can be done", q.Type, q.ID)
	if r.Quarantined != "" {
		q.find(EntityQuarantined, true, 0, fmt.Sprintf("roost entity quarantine lists the turns that ran when regions ended; mend them, then roost entity quarantine %s/%s --undo (docs/running/repair.md)", q.Type, q.ID), "%s refuses the commands of %s: it is quarantined %s", p.Name, name, r.Quarantined)
	}
	switch r.Stored {
	case "damaged":
		q.find(EntityDamaged, true, 0, repair, "%s cannot be loaded, because its stored data is damaged%s", name, prefixed(": ", r.Failure))
	case "failed":
		q.find(EntityFails, true, 0, "the log of "+p.Name+" has the reason; start a version of the program that can bring it to life", "%s cannot be brought to life%s", name, prefixed(": ", r.Failure))
	}
	if e == nil {
		if d := ms(r.ReadMs); d >= SlowAfter {
			q.find(JournalSlow, true, d, "look at the store of the journal", "reading %s from the journal has taken %s so far", name, d)
		}
		return
	}
	running, oldest := ms(e.RunningMs), ms(e.OldestMs)
	switch {
	case e.State == "damaged":
		q.find(EntityDamaged, true, oldest, repair, "%s takes no commands: the journal cannot take more of it, because its stored data is damaged", name)
	case e.State == "loading" && oldest >= SlowAfter:
		q.find(JournalSlow, true, oldest, "look at the store of the journal", "%s is being loaded since %s: the journal answers slowly", name, oldest)
	case e.State == "settling":
		q.find(JournalSlow, true, oldest, "it ends when the journal answers", "%s waits until the outcome of an earlier write is known", name)
	case e.Running != "" && e.WaitsForType != "" && running >= StuckAfter:
		other := e.WaitsForType + " " + e.WaitsForId
		q.find(WaitsForEntity, true, running, "roost entity explain "+other, "the turn %s of %s has been waiting for %s/%s for %s, and %d more commands wait after it", e.Running, name, e.WaitsForType, e.WaitsForId, running, behind(e))
		last := q.list[len(q.list)-1].Finding
		last.FollowType, last.FollowId = e.WaitsForType, e.WaitsForId
	case e.Running != "" && running >= StuckAfter:
		q.find(HandlerStuck, true, running, fmt.Sprintf("roost entity explain %s --stack shows where it is. roost shard move %s REGION serves the entity elsewhere: after region.drain_timeout its turn is given up, and a handler that ignores its context runs on without effect until its region ends", name, q.shardName()),
			"the handler %s of %s has been running for %s, and %d more commands wait after it", e.Running, name, running, behind(e))
	}
	switch {
	case r.MailboxLimit > 0 && e.Mailbox >= r.MailboxLimit:
		q.find(MailboxFull, true, oldest, "send less to this entity, or make its handlers faster; region.mailbox is the limit", "the mailbox of %s is full (%d commands): further commands are refused", name, e.Mailbox)
	case e.Running != "" && e.Mailbox > 1:
		q.find(Busy, true, oldest, "", "%s executes %s since %s, and %d more commands wait after it", name, e.Running, cmp.Or(running, time.Millisecond), behind(e))
	}
}

// behind returns how many commands wait behind the one that runs.
func behind(e *inspectionv1.ActiveEntity) uint32 { return max(e.Mailbox, 1) - 1 }

// journalOf checks the journal as a party sees it.
func (q *inquest) journalOf(p *Party) {
	if p == nil || p.Said.GetJournal() == nil || p.Said.GetRegion().GetVolatile() {
		return
	}
	j := p.Said.Journal
	q.fence(p, j)
	if j.Warning != "" {
		q.find(JournalRefuses, true, 0, "do what the text says; the journal continues automatically (docs/running/alerts.md, RoostJournalFails)", "the journal of %s: %s", p.Name, j.Warning)
	}
	running := ms(max(j.CommittingMs, j.OldestMs))
	switch {
	case j.State == "silent":
		q.find(JournalSilent, true, ms(j.HeardMs), "look at the server of journal.url and at the network to it; shards of the region go to others that reach it", "nothing succeeds in the journal of %s since %s%s", p.Name, ms(j.HeardMs), prefixed(": ", j.Failure))
	case running >= SlowAfter:
		q.find(JournalSlow, true, running, "look at the store of the journal: its disk, its locks, and what else writes to it", "the journal of %s has been committing for %s, and %d operations wait%s", p.Name, running, j.Queued, prefixed(": ", j.Failure))
	case j.Failure != "":
		q.find(JournalRefuses, true, 0, "do what the text says; the journal continues automatically (docs/running/alerts.md, RoostJournalFails)", "the journal of %s: %s", p.Name, j.Failure)
	case ms(j.SlowestMs) >= SlowAfter:
		q.find(JournalSlow, false, 0, "look at the store of the journal", "a commit of %s has taken %s in the last seconds", p.Name, ms(j.SlowestMs))
	}
}

// fence compares the fence with the row. If the fence is higher, the journal accepts nothing at the epoch of the row.
func (q *inquest) fence(p *Party, j *inspectionv1.JournalObservation) {
	r := q.row
	switch {
	case j.FenceError != "":
		q.find(JournalRefuses, true, 0, "roost journal check lists the damage", "who owns %s cannot be read from the journal: %s", q.shardName(), j.FenceError)
	case !j.FenceRead || r == nil || r.Epoch == 0 || j.FenceEpoch <= r.Epoch || r.Phase == "handing-off":
	case q.said == nil: // perhaps only the row is out of date: see tables
	default:
		q.find(JournalRefuses, true, ms(q.said.SinceMs), "it ends automatically when the coordinator has given the shard away at a higher epoch; if it does not, another cluster uses this journal: compare journal.url and cluster.name",
			"the journal refuses what the owner of %s writes at epoch %s: the fence is at %s", q.shardName(), epochText(r.Epoch), epochText(j.FenceEpoch))
	}
}

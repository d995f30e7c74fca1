package coordinator

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// term is the term of this coordinator, or the newest one that it has held: whether it acts, and since when; whose
// journal it uses; whether the owners of earlier terms had the time to register; which epoch comes next.
type term struct {
	active bool
	number sharding.Term // the newest term held
	known  Active        // the coordinator that is active, as far as this standby knows
	// cluster is the cluster that the journal belongs to; 0: not known. The journals of the regions must belong to it
	// too.
	cluster sharding.ClusterID
	since   time.Time // start of the term
	// recovered is true if the owners and successors in the facts have registered, or had the time to.
	recovered bool
	awaited   []sharding.NodeID // owners and successors in the facts that have not registered yet, sorted
	// open is true if enough regions have registered to begin allocating.
	open bool
	// counter is the last epoch of this term that was given out.
	counter uint32
	held    []held // of a standby: watches that wait for the next active coordinator; oldest first
}

// plausible reports whether a message that names the epoch e can have been caused by this coordinator, or
// by an earlier one. If e is higher than that, a newer coordinator exists. The highest plausible epoch is 1
// above the last one that was given out: a region that has stopped a shard at an epoch names the next one
// as the lowest at which it takes the shard again.
func (t *term) plausible(e sharding.Epoch) bool {
	return e <= sharding.MakeEpoch(t.number, t.counter)+1
}

// heartbeatDeleted reports whether a region has found no heartbeat in the journal of this cluster: the generation is
// drawn when a journal is created, so it is the same journal. The heartbeat was deleted. The Tenure is about to
// notice, and stores another one; a refusal would end the region.
func (t *term) heartbeatDeleted(owner control.JournalOwner, generation sharding.Generation) bool {
	//mutant:false heartbeat-asked
	return owner.Known && owner.Cluster == 0 && t.cluster != 0 && owner.Generation != 0 && owner.Generation == generation
}

// checkJournal returns what is wrong with a region whose journal is not the one that has the facts: its claims would
// not fence other regions.
func (t *term) checkJournal(owner control.JournalOwner, generation sharding.Generation) string {
	switch {
	case owner.Generation.Other(generation): //mutant:false region-generation
		return fmt.Sprintf("the region's journal has generation %s, and the coordinators' journal %s: one of them was restored or replaced, or is another journal; restart the region if it is older than that, and give it the journal.url of the coordinators", owner.Generation, generation)
	// Invariant: if a region's journal is not the journal of the coordinators, the region is given no shards.
	// Guarded by: `coordinator.checkJournal` compares two cluster identities. One identity is in the lease record. The
	// region has found the other identity in its journal and has sent it in `Register`.
	// Mutants: region-journal
	case !owner.Known || t.cluster == 0 || owner.Cluster == t.cluster: //mutant:true region-journal
		return ""
	case owner.Cluster == 0:
		return fmt.Sprintf("no coordinator has ever used the region's journal, and this is cluster %s; give the region the journal.url of the coordinators", t.cluster)
	}
	return fmt.Sprintf("the region's journal belongs to cluster %s, and this is cluster %s, which has the same name; give the region the journal.url of these coordinators, or the discovery.url of those", owner.Cluster, t.cluster)
}

// sendOn answers a call at a standby with the address of the active coordinator, if it is known.
func (t *term) sendOn(s *step, call control.Call) {
	s.reply(call, control.NotActive{Active: t.known.Node, Term: t.known.Term})
}

// askAgain answers a call that the active coordinator cannot answer yet, so that the caller asks again.
func (t *term) askAgain(s *step, call control.Call) {
	s.reply(call, control.NotActive{Term: t.number})
}

// endRecovery ends the wait for the owners and successors in the facts, when all have registered or the
// time is over. It reports whether the wait has just ended.
func (t *term) endRecovery(s *step) bool {
	//mutant:false recovery-wait len(t.awaited) > 0 && s.now.Sub(t.since) < s.cfg.RecoveryWait
	if t.recovered || len(t.awaited) > 0 && s.now.Sub(t.since) < s.cfg.RecoveryWait {
		return false
	}
	t.recovered, t.awaited = true, nil
	return true
}

// arrived removes a node from the list awaited, and reports whether the node was in it.
func (t *term) arrived(node sharding.NodeID) bool {
	i, found := slices.BinarySearchFunc(t.awaited, node, sharding.NodeID.Compare)
	if found {
		t.awaited = slices.Delete(t.awaited, i, i+1)
	}
	return found
}

// termEnds reports whether the lease of the active coordinator ends soon unless it is renewed, or has ended a short
// time ago. Usually it is renewed much earlier. If no coordinator takes over in that time, this standby may be the
// one that does not see the lease, and answers at once with the coordinator that it knows.
func (t *term) termEnds(s *step) bool {
	left := t.known.Until.Sub(s.now)
	return left <= s.cfg.LeaseEnd && left > -s.cfg.WatchHold
}

// held is a watch at a standby that waits for the next active coordinator.
type held struct {
	call  control.Call
	from  sharding.Version
	since time.Time
}

// hold handles a watch at a standby. While the term of the active coordinator seems to end, a standby holds
// watches, as it may be the next one. So the watchers, which have lost the active coordinator, know the next one as
// soon as it is active, and need not find it.
func (t *term) hold(s *step, call control.Call, from sharding.Version) {
	if !t.termEnds(s) {
		t.sendOn(s, call)
		return
	}
	if len(t.held) >= s.cfg.MaxWatches {
		t.sendOn(s, t.held[0].call)
		t.held = slices.Delete(t.held, 0, 1)
	}
	t.held = append(t.held, held{call: call, from: from, since: s.now})
}

// answerHeld answers the watches that this standby holds if the lease was renewed, if another coordinator has acquired
// it, or if they have waited long enough.
func (t *term) answerHeld(s *step) {
	n := 0
	for n < len(t.held) && (!t.termEnds(s) || s.now.Sub(t.held[n].since) >= s.cfg.WatchHold) {
		t.sendOn(s, t.held[n].call)
		n++
	}
	t.held = slices.Delete(t.held, 0, n)
}

// forget forgets a held watch that its caller no longer waits for.
func (t *term) forget(call control.Call) {
	t.held = slices.DeleteFunc(t.held, func(w held) bool { return w.call == call })
}

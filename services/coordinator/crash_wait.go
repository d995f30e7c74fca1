package coordinator

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/quarantine"
)

// A shard that loses one region after the other may have an entity that ends them. Only the processes that are
// started in place of the lost regions can report which entities ran. So if the last QuarantineCrashes holders of
// a shard were lost, each soon after it was given the shard, the shard waits for these reports before it goes to
// the next region.
//
//   - A loss counts whether or not the holder has reported that it serves the shard: the first turn may end the
//     process before that message leaves it.
//   - If a report shows that no entity of the shard ran, or only entities that are quarantined by now, this loss
//     and the losses before it do not count.
//   - If a machine is gone, no process is started there. So a shard waits for Config.CrashPatience at most, and
//     for twice as long after each further loss. The more regions have crashed, the less likely it is that all
//     of their machines are gone, and the more harm the shard can do.

const (
	// crashSoon is how soon after a region was given a shard its loss may be the fault of an entity of that shard.
	crashSoon = 30 * time.Second
	// patienceDoublings bounds the doublings of Config.CrashPatience: up to 48 s with the default. Platforms wait
	// longer and longer before they start a process again that ends again and again.
	patienceDoublings = 4
)

// clears reports whether a report shows that no entity of the shard ran, apart from quarantined ones.
func (tr *transit) clears(report *quarantine.Report, shard sharding.ShardID) bool {
	if report == nil || report.More { //mutant:true quarantine-others
		return false
	}
	return !slices.ContainsFunc(report.Ran, func(e sharding.Entity) bool {
		_, row := tr.table.rowOf(e)
		return row != nil && row.Shard == shard && !tr.quarantine.Quarantined(e)
	})
}

// waitsForReport reports whether a shard whose holder is lost still waits for reports about its last holders.
func (tr *transit) waitsForReport(r *row) bool {
	k := tr.cfg.QuarantineCrashes
	// Invariant: several owners of a shard may be lost, each soon after it began to serve the shard. The next region
	// then gets the shard only when, for each lost owner, the process that was started in its place has reported which
	// entities ran when the owner crashed, or after a limited time. This time doubles with each further loss. A shard
	// without an entity that ran does not wait.
	// Mutants: quarantine-waits, quarantine-patience, quarantine-others
	//mutant:do quarantine-starting if r.Phase == sharding.Starting { return false }
	//mutant:true quarantine-waits
	if k == 0 {
		return false
	}
	if r.lostSince.IsZero() {
		r.lostSince = tr.now
	}
	if r.lostSince.Sub(r.heldSince()) > crashSoon {
		return false
	}
	ended, missing := 0, false // missing: there is no report about one of the newest QuarantineCrashes losses
	for i := len(r.losses); i >= 0; i-- {
		of := r.awaited()
		if i < len(r.losses) {
			if of = r.losses[i]; tr.live.reachable(of) { // it was only unreachable for a while
				continue
			}
		}
		report := tr.quarantine.Report(of.UID)
		if tr.clears(report, r.Shard) {
			break
		}
		ended++
		missing = missing || ended <= k && report == nil
	}
	if ended < k || !missing || tr.now.Sub(r.lostSince) >= tr.crashPatience(ended) {
		return false
	}
	tr.review.waitingForReports = true
	return true
}

// crashPatience returns how long a shard waits for reports when so many holders were lost.
func (tr *transit) crashPatience(ended int) time.Duration {
	//mutant:do quarantine-patience return tr.cfg.CrashPatience
	return tr.cfg.CrashPatience << min(ended-tr.cfg.QuarantineCrashes, patienceDoublings)
}

// heldSince returns when the region that r.awaited returns was given the shard.
func (r *row) heldSince() time.Time {
	if r.released {
		return r.since
	}
	return r.given
}

// withLoss returns the losses of a shard, including the loss of its present holder.
func (tr *transit) withLoss(r *row) []sharding.NodeID {
	before, lost, holder := r.losses, r.lostSince, r.awaited()
	if lost.IsZero() {
		lost = tr.now
	}
	if lost.Sub(r.heldSince()) > crashSoon {
		before = nil // the holder had the shard for a while, so the earlier losses have another reason
	}
	if tr.cfg.QuarantineCrashes == 0 || len(before) > 0 && before[len(before)-1] == holder {
		return before
	}
	losses := append(slices.Clip(before), holder)
	return losses[max(0, len(losses)-tr.cfg.QuarantineCrashes+1-patienceDoublings):]
}

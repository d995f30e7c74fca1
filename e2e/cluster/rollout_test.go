package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/e2e/cluster/load"
	"github.com/roost-cluster/roost/libs/adminclient"
)

// The regions of a rollout, and the shards of both types that they host.
const (
	rolloutRegions = 6
	rolloutShards  = typeShards + tallyShards
	tallyShards    = 16
)

// The binaries of the two versions.
const (
	version1 = "list-region"
	version2 = "list-region-v2"
)

// sixRegions starts a cluster of six regions of version 1.
func sixRegions(r *run, o *launcher.Options) {
	o.Regions = rolloutRegions
	o.RegionBinary = filepath.Join(r.dir, "region")
	r.release(version1)
}

// sixRegionsWithOldEvents is sixRegions, and version 2 stores events that version 1 reads.
func sixRegionsWithOldEvents(r *run, o *launcher.Options) {
	sixRegions(r, o)
	o.Env = append(o.Env, "LIST_EVENTS=1")
}

// release makes regions that start from now on run a version.
func (r *run) release(version string) {
	r.Helper()
	link := filepath.Join(r.dir, "region")
	r.must(os.RemoveAll(link))
	r.must(os.Symlink(filepath.Join(binaries(r.T), version), link))
}

// replace is one step of a rollout: an old region goes, and one of the released version
// comes. It returns the name of the new one.
type replace func(r *run, old string) string

// surge starts the new region first, as a platform with a surge of one does.
func surge(r *run, old string) string {
	r.Helper()
	name, err := r.cluster.AddRegion(r.Context())
	r.must(err)
	r.must(r.cluster.Ready(r.Context(), name))
	r.retired[old] = true
	r.must(r.cluster.Stop(r.Context(), old))
	return name
}

// surgeAsPlanned does the same, and checks that the old region's shards go where a plan says.
func surgeAsPlanned(r *run, old string) string {
	r.Helper()
	name, err := r.cluster.AddRegion(r.Context())
	r.must(err)
	r.must(r.cluster.Ready(r.Context(), name))
	r.retired[old] = true
	r.asPlanned(old, func() { r.must(r.cluster.Stop(r.Context(), old)) })
	return name
}

// inPlace stops the old region first.
func inPlace(r *run, old string) string {
	r.Helper()
	r.must(r.cluster.Stop(r.Context(), old))
	r.must(r.cluster.Restart(r.Context(), old))
	r.must(r.cluster.Ready(r.Context(), old))
	return old
}

// replaceAll replaces regions one after the other, and returns the names of the new ones.
// then is called after each step.
func (r *run) replaceAll(how replace, old []string, then func(done []string)) (replaced []string) {
	r.Helper()
	for _, name := range old {
		replaced = append(replaced, how(r, name))
		then(replaced)
	}
	return replaced
}

// regions returns the names of the regions.
func (r *run) regions() (names []string) {
	for _, p := range r.cluster.Processes() {
		if p.Role == launcher.Region && !r.retired[p.Name] {
			names = append(names, p.Name)
		}
	}
	return names
}

// allocateAll makes every shard of both types have an owner, so that moves can be counted.
func (r *run) allocateAll() {
	r.Helper()
	eventually(r.T, waitLimit, func() error {
		name, _ := r.active()
		send := r.coordinator(name)
		n := 0
		for typ, shards := range map[string]int{"List": typeShards, "Tally": tallyShards} {
			for i := range shards {
				send("Send", shardHome(typ, i))
			}
			n += len(r.allocated(typ))
		}
		if n < rolloutShards {
			return fmt.Errorf("%d of %d shards have an owner", n, rolloutShards)
		}
		return nil
	})
}

// moves counts the shards that the coordinators that run have told regions to hand off.
func (r *run) moves() (sum int) {
	r.Helper()
	for _, p := range r.cluster.Processes() {
		if p.Role != launcher.Coordinator || p.PID == 0 {
			continue
		}
		n, err := r.counter(p.Name, "roost.coordinator.rebalance.moves")
		r.must(err)
		sum += int(n)
	}
	return sum
}

// rollout replaces all regions by ones of version 2, under clients that use its new command
// as soon as there is a region of it. then is called after each step.
func rollout(how replace, then func(r *run, done []string)) func(r *run) {
	return func(r *run) {
		r.allocateAll()
		r.wait(time.Second)
		r.rollTo(version2, how, func(r *run, done []string) {
			if len(done) == 1 {
				r.load.UseAppend()
			}
			if then != nil {
				then(r, done)
			}
		})
	}
}

// rollTo replaces all regions, and measures it. then is called after each step.
func (r *run) rollTo(version string, how replace, then func(r *run, done []string)) {
	r.Helper()
	before, began := r.moves(), time.Now()
	most := 0
	r.release(version)
	replaced := r.replaceAll(how, r.regions(), func(done []string) {
		for _, name := range r.regions() {
			most = max(most, r.shardsOf(name))
		}
		if then != nil {
			then(r, done)
		}
	})
	r.moved = r.moves() + r.lostMoves - before
	r.figure("six regions in %.1f s, %d moves of %d shards, at most %d of %d lists' shards at one", time.Since(began).Seconds(), r.moved, rolloutShards, most, typeShards)
	if most > typeShards/2 {
		r.Errorf("a region had %d of the %d shards of the lists in the rollout", most, typeShards)
	}
	for _, name := range replaced {
		eventually(r.T, waitLimit, func() error {
			if r.shardsOf(name) == 0 {
				return fmt.Errorf("%s has no shard of the lists after the rollout", name)
			}
			return nil
		})
	}
}

// target makes a version the target, as roost rollout target does.
func (r *run) target(version string) {
	r.Helper()
	eventually(r.T, waitLimit, func() error {
		_, err := adminclient.New(r.cluster.Admin()...).SetTarget(r.Context(), version, "the test")
		return err
	})
}

// rollBack goes to version 2 and back to version 1, which reads what version 2 stores.
func rollBack(r *run) {
	r.allocateAll()
	r.wait(time.Second)
	r.rollTo(version2, surge, nil)
	r.target("1")
	r.rollTo(version1, surge, nil)
}

// rollBackUnread goes to version 2 and back to version 1, which does not read what version
// 2 stores. Data in the new form stays at regions of version 2. When there are
// none any more, its commands are refused, until there is one again.
func rollBackUnread(r *run) {
	r.allocateAll()
	r.wait(time.Second)
	r.rollTo(version2, surge, nil)
	r.target("1")
	r.release(version1)
	old := r.regions()
	r.replaceAll(surge, old[1:], func([]string) {})
	kept := r.shardsOf(old[0])
	if kept < load.Lists/2 || kept == typeShards {
		r.Errorf("the last region of version 2 has %d of %d shards; it is to have those that version 1 cannot read, and no others", kept, typeShards)
	}
	r.replaceAll(surge, old[:1], func([]string) {})
	eventually(r.T, waitLimit, func() error {
		res, err := adminclient.New(r.cluster.Admin()...).Rollout(r.Context())
		if err != nil || len(res.GetUnreadable()) == 0 {
			return cmp.Or(err, errors.New("no shard is unreadable"))
		}
		u := res.GetUnreadable()[0]
		if !strings.Contains(strings.Join(u.GetForms(), ""), "Added") || !slices.Equal(u.GetBy(), []string{"2"}) {
			r.Errorf("%v does not name the event that is not read, and version 2", u)
		}
		r.blocked = len(u.GetShards())
		return nil
	})
	r.wait(2 * time.Second)
	r.release(version2)
	name, err := r.cluster.AddRegion(r.Context())
	r.must(err)
	r.must(r.cluster.Ready(r.Context(), name))
	r.figure("%d shards stayed with the last region of version 2, %d were blocked without one", kept, r.blocked)
}

// someRefused checks that commands were refused while no region could read their lists.
func someRefused(r *run) {
	if r.load.Reasons["ROOST-1005"] == 0 {
		r.Errorf("no command was refused because no region reads its list: %v", r.load.Reasons)
	}
}

// noneFailed checks that no command failed, and that Append was used.
func noneFailed(r *run) {
	for _, o := range r.load.Ops() {
		if o.Outcome != history.Executed {
			r.Errorf("a command failed in the rollout: %+v; attempts failed by %v", o, r.load.Reasons)
			return
		}
	}
	appended := r.load.Appended
	if len(appended) == 0 {
		r.markVoid("no client used the new command")
		return
	}
	slices.Sort(appended)
	r.Logf("%d uses of the new command, p50 %v, p99 %v, longest %v; attempts refused: %v", len(appended),
		appended[len(appended)/2], appended[len(appended)*99/100], appended[len(appended)-1], r.load.Reasons)
}

// movedOnce checks that every shard has moved once.
func movedOnce(r *run) {
	if r.moved != rolloutShards {
		r.Errorf("%d moves of %d shards: each is to move once", r.moved, rolloutShards)
	}
	noneFailed(r)
}

// movedOnceBack checks the same of the way back, where no client uses the new command.
func movedOnceBack(r *run) {
	if r.moved != rolloutShards {
		r.Errorf("%d moves of %d shards: each is to move once", r.moved, rolloutShards)
	}
	for _, o := range r.load.Ops() {
		if o.Outcome != history.Executed {
			r.Errorf("a command failed: %+v; attempts failed by %v", o, r.load.Reasons)
			return
		}
	}
}

// movedLittle checks the bound of a rollout in place: the shards of the first region that
// stops move twice, and so may those that fill up the last one. Balance may cost one more for
// each region.
func movedLittle(r *run) {
	if most := rolloutShards + 2*(typeShards+tallyShards+2*rolloutRegions)/rolloutRegions + rolloutRegions; r.moved > most {
		r.Errorf("%d moves of %d shards, at most %d are needed", r.moved, rolloutShards, most)
	}
	noneFailed(r)
}

// movedDespiteKill checks that a kill adds no more moves than the killed region had shards.
func movedDespiteKill(r *run) {
	if most := rolloutShards + r.killedShards + rolloutRegions; r.moved > most {
		r.Errorf("%d moves of %d shards, at most %d are needed: %d for the killed region, and one for each for balance", r.moved, rolloutShards, most, r.killedShards)
	}
}

// killAt kills a region of version 2 once there are so many, and starts it again.
func killAt(regions int) func(r *run, done []string) {
	return func(r *run, done []string) {
		if len(done) != regions {
			return
		}
		victim := done[0]
		r.wait(time.Second) // something is stored in the new form
		r.killedShards = rolloutShards
		r.kill(victim)
		began := time.Now()
		r.must(r.cluster.Restart(r.Context(), victim))
		r.must(r.cluster.Ready(r.Context(), victim))
		r.figure("%s is killed and ready again after %.1f s", victim, time.Since(began).Seconds())
	}
}

// killCoordinatorAtFirst kills the active coordinator while the first region of version 2
// begins to store.
func killCoordinatorAtFirst(r *run, done []string) {
	if len(done) != 1 {
		return
	}
	name, before := r.active()
	r.lostMoves += r.moves()
	r.kill(name)
	r.successor(before)
	r.lostMoves -= r.moves()
	r.must(r.cluster.Restart(r.Context(), name))
}

var rollouts = []scenario{
	{name: "rollout-surge", length: 10 * time.Second, rate: 500, prepare: sixRegions, faults: rollout(surgeAsPlanned, nil), check: movedOnce},
	{name: "rollout-in-place", length: 10 * time.Second, rate: 500, prepare: sixRegions, faults: rollout(inPlace, nil), check: movedLittle},
	{name: "rollout-back", length: 10 * time.Second, rate: 500, prepare: sixRegionsWithOldEvents, faults: rollBack, check: movedOnceBack},
	{name: "rollout-back-unread", length: 10 * time.Second, rate: 500, least: 0.2, prepare: sixRegions, faults: rollBackUnread, check: someRefused},
	{name: "rollout-kill-one-of-two", length: 10 * time.Second, rate: 500, prepare: sixRegions, faults: rollout(surge, killAt(2)), check: movedDespiteKill},
	{name: "rollout-kill-only", length: 10 * time.Second, rate: 500, prepare: sixRegions, faults: rollout(surge, killAt(1)), check: movedDespiteKill},
	{name: "rollout-kill-coordinator", length: 10 * time.Second, rate: 500, prepare: sixRegions, faults: rollout(surge, killCoordinatorAtFirst), check: movedDespiteKill},
}

// TestRollouts: code changes while data stays and traffic flows.
func TestRollouts(t *testing.T) { runScenarios(t, rollouts) }

package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// TestHistories: whatever happens to the processes, the histories of the
// clients are right.
func TestHistories(t *testing.T) {
	if os.Getenv("E2E") == "" {
		t.Skip("needs a machine of its own, for an offered rate must be met: make e2e, or E2E=short for a few of them")
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			if s.full && !everything() {
				t.Skip("runs with E2E=full")
			}
			play(t, s)
		})
	}
}

var scenarios = []scenario{
	{name: "kill-region", length: 8 * time.Second, faults: func(r *run) { killFor(r, "region-2") }},
	{name: "kill-two", length: 8 * time.Second, faults: killCoordinatorAndRegion},
	{name: "pause-region", length: 10 * time.Second, faults: pauseRegion},
	{name: "pause-coordinator", length: 10 * time.Second, faults: pauseCoordinator},
	{name: "kill-all", length: 10 * time.Second, least: 60, faults: killAll},
	{name: "kill-gateway", full: true, length: 8 * time.Second, faults: func(r *run) { killFor(r, "gateway-1") }},
	{name: "kill-coordinator", full: true, length: 8 * time.Second, faults: killCoordinator},
	{name: "kill-two-regions", full: true, length: 10 * time.Second, faults: func(r *run) { killFor(r, "region-1", "region-3") }},
	{name: "kill-both-coordinators", full: true, length: 10 * time.Second, faults: func(r *run) { killFor(r, "coordinator-1", "coordinator-2") }},
	{name: "same-address", full: true, length: 10 * time.Second, faults: sameAddress},
	{name: "same-identity", full: true, length: 12 * time.Second, faults: sameIdentity},
	{name: "terminate", full: true, length: 25 * time.Second, faults: terminate, check: nothingUnknown},
	{name: "disk-full", full: true, length: 12 * time.Second, prepare: smallDisk, faults: diskFull},
	{name: "failing-fsync", full: true, length: 12 * time.Second, faults: failingFsync},
	{name: "corrupted-record", full: true, length: 16 * time.Second, least: 60, faults: corruptedRecord},
}

// killFor kills processes for longer than it takes to notice.
func killFor(r *run, names ...string) {
	r.wait(2 * time.Second)
	r.kill(names...)
	r.wait(3 * time.Second)
	r.up()
}

func killCoordinator(r *run) {
	name, _ := r.active()
	killFor(r, name)
}

// killCoordinatorAndRegion leaves shards without an owner, and nobody who
// gives them a new one at once.
func killCoordinatorAndRegion(r *run) {
	r.wait(2 * time.Second)
	name, before := r.active()
	r.kill(name, "region-1")
	r.wait(3 * time.Second)
	r.up()
	if _, term := r.active(); term <= before {
		r.Errorf("term %d follows %d", term, before)
	}
}

// pauseRegion stops a region for longer than detection: its shards move, and
// when it goes on, nothing that it still has in hand may take effect.
func pauseRegion(r *run) {
	r.wait(2 * time.Second)
	r.pause("region-2")
	r.wait(4 * time.Second)
	r.must(r.cluster.Signal("region-2", syscall.SIGCONT))
	r.wait(2 * time.Second)
	late := r.metric("region-2", "roost_journal_fenced_total")
	r.figure("%.0f late operations refused", late)
	if late == 0 {
		r.Error("void: region-2 had nothing in hand when it was stopped")
	}
}

// pauseCoordinator stops the active coordinator for longer than its lease, and
// kills a region meanwhile, so that its table becomes wrong. Requests wait for
// it, and are the first that it hears of when it goes on: it must neither answer
// them nor act on them.
func pauseCoordinator(r *run) {
	r.wait(2 * time.Second)
	old, before := r.active()
	r.pause(old)
	r.wait(3 * time.Second)
	r.kill("region-3")
	allocated := r.allocated()
	requests := r.askCoordinator(old, allocated)
	r.wait(2 * time.Second)
	now, term := r.active()
	if now == old || term <= before {
		r.Errorf("%s is active in term %d while %s of term %d is stopped", now, term, old, before)
	}
	r.must(r.cluster.Signal(old, syscall.SIGCONT))
	refused := 0
	for range cap(requests) {
		if err := <-requests; err != nil {
			r.Error(err)
			continue
		}
		refused++
	}
	r.wait(time.Second)
	if r.metric(old, "roost_coordinator_leader") != 0 {
		r.Errorf("%s still leads", old)
	}
	if still, same := r.active(); still != now || same != term {
		r.Errorf("%s of term %d is active, it was %s of term %d", still, same, now, term)
	}
	if after := r.allocated(); !slices.Equal(after, allocated) {
		r.Errorf("shards %v were allocated, and now %v are: %s went on as if it were still active", allocated, after, old)
	}
	// What the old one did not do, the new one does.
	free := 0
	for slices.Contains(allocated, free) {
		free++
	}
	r.coordinator(now)("GetShardHomes", shardHome(free))
	eventually(r.T, 10*time.Second, func() error {
		if !slices.Contains(r.allocated(), free) {
			return fmt.Errorf("%s does not allocate shard %d", now, free)
		}
		return nil
	})
	r.figure("term %d after %d, %d late replies refused, %d late allocations not made, %.0f late writes fenced", term, before, refused,
		typeShards-len(allocated), r.metric(old, "roost_journal_fenced_total"))
}

// typeShards is how many shards the lists have.
const typeShards = 64

// allocated are the shards of the lists that have an owner, in order.
func (r *run) allocated() (indexes []int) {
	r.Helper()
	var res *adminv1.ShardsResponse
	eventually(r.T, 20*time.Second, func() (err error) {
		res, err = launcher.NewAdmin(r.cluster.Admin()...).Shards(r.Context(), "List", "")
		return err
	})
	for _, s := range res.Shards {
		indexes = append(indexes, int(s.Index))
	}
	slices.Sort(indexes)
	return indexes
}

// coordinator calls methods of a coordinator, as JSON; no answer is nil, and so
// is an error.
func (r *run) coordinator(name string) func(method, body string) []byte {
	base := "http://" + r.process(name).Service + "/twirp/roost.coordinator.v1.Coordinator/"
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{}}
	return func(method, body string) []byte {
		res, err := client.Post(base+method, "application/json", strings.NewReader(body))
		if err != nil {
			return nil
		}
		defer func() { _ = res.Body.Close() }()
		raw, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			return nil
		}
		return raw
	}
}

func shardHome(index int) string {
	return fmt.Sprintf(`{"cluster":"dev","shards":[{"type":"List","index":%d}]}`, index)
}

// askCoordinator sends requests to a coordinator that is stopped: for the
// table, and for homes of all shards that are not allocated. The channel tells
// for each request for the table, when it is answered, whether the answer was
// one that only the active coordinator may give. Requests for homes have no
// answer but the table.
func (r *run) askCoordinator(name string, allocated []int) <-chan error {
	call := r.coordinator(name)
	for i := range typeShards {
		if !slices.Contains(allocated, i) {
			go call("GetShardHomes", shardHome(i))
		}
	}
	results := make(chan error, 20)
	for range cap(results) {
		go func() {
			raw := call("WatchTable", `{"cluster":"dev","boot_uid":"1"}`)
			var table struct {
				Standby *struct{} `json:"not_active"`
			}
			if raw != nil && (json.Unmarshal(raw, &table) != nil || table.Standby == nil) {
				results <- fmt.Errorf("%s was active when it was stopped, and answered when it was not any more: %.300s", name, raw)
				return
			}
			results <- nil
		}()
	}
	return results
}

// killAll ends everything at once, and starts it again in any order.
func killAll(r *run) {
	r.wait(2 * time.Second)
	var names []string
	for _, p := range r.cluster.Processes() {
		names = append(names, p.Name)
	}
	r.kill(names...)
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	began := time.Now()
	r.up()
	r.figure("all ready in %.1f s", time.Since(began).Seconds())
}

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

	"github.com/roost-cluster/roost/libs/adminclient"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// TestHistories: under every fault, the histories of the clients are correct.
func TestHistories(t *testing.T) { runScenarios(t, scenarios) }

// runScenarios runs the scenarios of the requested set, on every store.
func runScenarios(t *testing.T, scenarios []scenario) {
	if os.Getenv("E2E") == "" {
		t.Skip("takes minutes: make e2e for all of them, make e2e SET=short for the most important ones")
	}
	for _, s := range scenarios {
		on := s.on
		if on == nil {
			on = []string{onSQLite, onPostgres}
		}
		t.Run(s.name, func(t *testing.T) {
			for _, store := range on {
				t.Run(store, func(t *testing.T) {
					if !fullSet() && !slices.Contains(s.short, store) {
						t.Skip("not in the short set")
					}
					ran.Store(true)
					repeat(t, &s, store)
				})
			}
		})
	}
}

var (
	files  = []string{onSQLite}
	server = []string{onPostgres}
	both   = []string{onSQLite, onPostgres}
)

var scenarios = []scenario{
	{name: "kill-region", length: 8 * time.Second, faults: func(r *run) { killFor(r, "region-2") }},
	{name: "kill-two", short: files, length: 8 * time.Second, faults: killCoordinatorAndRegion},
	{name: "kill-all", short: files, length: 10 * time.Second, least: 0.2, faults: killAll},
	{name: "kill-gateway", length: 8 * time.Second, faults: func(r *run) { killFor(r, "gateway-1") }},
	{name: "kill-coordinator", length: 8 * time.Second, faults: killCoordinator},
	{name: "kill-two-regions", length: 10 * time.Second, faults: func(r *run) { killFor(r, "region-1", "region-3") }},
	{name: "kill-both-coordinators", length: 10 * time.Second, faults: func(r *run) { killFor(r, "coordinator-1", "coordinator-2") }},

	{name: "pause-region", short: both, length: 10 * time.Second, faults: func(r *run) { pauseRegion(r, 4*time.Second) }},
	{name: "pause-coordinator", short: both, length: 10 * time.Second, faults: func(r *run) { pauseCoordinator(r, 3*time.Second) }},
	// So long that the others declare it down.
	{name: "pause-region-long", length: 10 * time.Second, faults: func(r *run) { pauseRegion(r, 25*time.Second) }},
	{name: "pause-coordinator-long", length: 10 * time.Second, faults: func(r *run) { pauseCoordinator(r, 25*time.Second) }},

	{name: "isolate-region", short: both, length: 10 * time.Second, network: true, faults: isolateRegion},
	{name: "isolate-region-long", length: 10 * time.Second, least: 0.3, network: true, faults: isolateRegionForLong},
	{name: "cut-region-coordinators", length: 10 * time.Second, network: true, faults: cutRegionFromCoordinators},
	{name: "cut-region-journal", on: server, length: 10 * time.Second, least: 0.3, network: true, faults: cutRegionFromJournal},
	{name: "region-without-journal", on: server, length: 60 * time.Second, least: 0.3, network: true, faults: regionWithoutJournal},
	{name: "cut-coordinator", short: server, length: 10 * time.Second, network: true, faults: cutCoordinator},
	{name: "cut-coordinator-long", length: 10 * time.Second, least: 0.2, network: true, faults: cutCoordinatorForLong},
	{name: "cut-gateway-region", length: 10 * time.Second, least: 0.3, network: true, faults: cutGatewayFromRegion},
	{name: "mute-region", length: 10 * time.Second, network: true, faults: muteRegion},
	{name: "deaf-region", length: 10 * time.Second, network: true, faults: deafRegion},
	{name: "bridge", short: server, length: 10 * time.Second, least: 0.2, network: true, faults: bridge},
	{name: "island", short: files, length: 10 * time.Second, least: 0.3, network: true, faults: island},
	{name: "halves", short: server, length: 10 * time.Second, least: 0.2, network: true, faults: halves},

	{name: "same-address", length: 10 * time.Second, faults: sameAddress},
	{name: "same-identity", length: 12 * time.Second, faults: sameIdentity},
	{name: "terminate", length: 25 * time.Second, faults: terminate, check: nothingUnknown},
	{name: "kill-journal", on: server, short: server, length: 10 * time.Second, least: 0.2, faults: func(r *run) { journalDown(r, (*postgrestest.Server).Kill) }},
	{name: "stop-journal", on: server, length: 10 * time.Second, least: 0.2, faults: func(r *run) { journalDown(r, (*postgrestest.Server).Stop) }},
	{name: "kill-second-database", on: server, short: server, length: 12 * time.Second, least: 0.2, prepare: twoDatabases, faults: killSecondDatabase, check: slipsAreCounted},
	{name: "kill-first-database", on: server, length: 12 * time.Second, least: 0.2, prepare: twoDatabases, faults: killFirstDatabase, check: slipsAreCounted},
	{name: "promote-standby", on: server, length: 12 * time.Second, least: 0.2, prepare: withStandby, faults: promoteStandby},
	{name: "disk-full", on: files, length: 12 * time.Second, prepare: smallDisk, faults: diskFull},
	{name: "failing-fsync", on: files, length: 12 * time.Second, faults: failingFsync},
	{name: "failing-fsync-coordinator", on: files, length: 12 * time.Second, faults: failingFsyncOfCoordinator},
	{name: "corrupted-record", length: 16 * time.Second, least: 0.2, faults: corruptedRecord},
}

// killFor kills processes, and starts them again after that was noticed.
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

// killCoordinatorAndRegion leaves shards without an owner, and without a coordinator that
// could allocate them at once.
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

// pauseRegion stops a region for longer than failure detection takes. Its shards move, and
// when it resumes, nothing that it still holds may take effect. If it was declared down
// meanwhile, it ends then.
func pauseRegion(r *run, d time.Duration) {
	r.wait(2 * time.Second)
	r.pause("region-2")
	r.wait(d)
	r.must(r.cluster.Signal("region-2", syscall.SIGCONT))
	r.mustFence("region-2")
	r.up()
}

// fate returns the end of a figure, which reports whether a process has ended.
func (r *run) fate(name string) string {
	if r.ended(name) {
		return ", then it ended"
	}
	return ""
}

// pauseCoordinator stops the active coordinator for longer than its lease, and kills a
// region meanwhile, so that its table becomes wrong. When it resumes, the first that it sees
// are requests: it must neither answer them nor act on them. If it was declared down
// meanwhile, it ends then.
func pauseCoordinator(r *run, d time.Duration) {
	r.wait(2 * time.Second)
	old, before := r.active()
	r.pause(old)
	r.wait(d)
	r.kill("region-3")
	allocated := r.allocated("List")
	requests := r.askCoordinator(old, allocated)
	now, term := r.successor(before)
	if now == old {
		r.Errorf("%s is active in term %d while it is stopped", old, term)
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
	if still, same := r.active(); same > term {
		r.markVoid("%s of term %d followed %s of term %d: a coordinator could not hold the lease", still, same, now, term)
		r.SkipNow()
	} else if still != now || same != term {
		r.Errorf("%s of term %d is active, it was %s of term %d", still, same, now, term)
	}
	if after := r.allocated("List"); !slices.Equal(after, allocated) {
		r.Errorf("shards %v were allocated, and now %v are: %s acted as if it were still active", allocated, after, old)
	}
	if leads, err := r.scrape(old, "roost_coordinator_leader"); err == nil && leads != 0 {
		r.Errorf("%s still leads", old)
	} else if err != nil {
		r.waitEnd(old) // a process without metrics must have ended
	}
	// What the old one did not do, the new one must.
	free := 0
	for slices.Contains(allocated, free) {
		free++
	}
	eventually(r.T, waitLimit, func() error {
		r.coordinator(now)("Send", shardHome("List", free))
		if !slices.Contains(r.allocated("List"), free) {
			return fmt.Errorf("%s does not allocate shard %d", now, free)
		}
		return nil
	})
	fenced, err := r.counter(old, "roost.journal.fenced")
	r.must(err)
	r.figure("term %d after %d, %d late replies refused, %d late allocations not made, %.0f late writes fenced%s",
		term, before, refused, typeShards-len(allocated), fenced, r.fate(old))
	r.up()
}

// waitEnd waits until a process has ended on its own.
func (r *run) waitEnd(name string) {
	r.Helper()
	eventually(r.T, waitLimit, func() error {
		if !r.ended(name) {
			return fmt.Errorf("%s neither ends nor serves", name)
		}
		return nil
	})
}

// typeShards is the number of shards of the type List.
const typeShards = 64

// allocated returns the shards of a type that have an owner, in order.
func (r *run) allocated(typ string) (indexes []int) {
	r.Helper()
	var res *adminv1.ShardsResponse
	eventually(r.T, waitLimit, func() (err error) {
		res, err = adminclient.New(r.cluster.Admin()...).Shards(r.Context(), typ, "")
		return err
	})
	for _, s := range res.Shards {
		indexes = append(indexes, int(s.Index))
	}
	slices.Sort(indexes)
	return indexes
}

// coordinator returns a function that calls a method of a coordinator, as JSON. It returns
// nil if there is no answer or an error.
func (r *run) coordinator(name string) func(method, body string) []byte {
	base := "http://" + r.process(name).Service + "/twirp/roost.control.v1.Control/"
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

const watchTable = `{"cluster":"dev","message":{"watch_table":{}}}`

func shardHome(typ string, index int) string {
	return fmt.Sprintf(`{"cluster":"dev","messages":[{"get_shard_home":{"shard":{"type":%q,"index":%d}}}]}`, typ, index)
}

// askCoordinator sends requests to a coordinator that is stopped: for the table, and for the
// homes of all shards that are not allocated. For each request for the table, the channel
// gets an error if the answer is one that only the active coordinator may give. Requests for
// homes have no answer but the table.
func (r *run) askCoordinator(name string, allocated []int) <-chan error {
	call := r.coordinator(name)
	for i := range typeShards {
		if !slices.Contains(allocated, i) {
			go call("Send", shardHome("List", i))
		}
	}
	results := make(chan error, 20)
	for range cap(results) {
		go func() {
			raw := call("Call", watchTable)
			var answer struct {
				Message struct {
					Standby *struct{} `json:"not_active"`
				}
			}
			if raw != nil && (json.Unmarshal(raw, &answer) != nil || answer.Message.Standby == nil) {
				results <- fmt.Errorf("%s was active when it was stopped, and answered when it was not any more: %.300s", name, raw)
				return
			}
			results <- nil
		}()
	}
	return results
}

// killAll kills all processes at once, and starts them again in any order.
func killAll(r *run) {
	r.wait(2 * time.Second)
	names := r.names()
	r.kill(names...)
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	began := time.Now()
	r.up()
	r.figure("all ready in %.1f s", time.Since(began).Seconds())
}

package alerts

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/journal/sqlite"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// scenarios inject the causes of all alerts.
var scenarios = []struct {
	name string
	long bool // only in the full set
	play func(t *testing.T)
}{
	{"nothing", false, nothing},
	{"active coordinator", false, activeCoordinator},
	{"coordinators", false, coordinators},
	{"regions", false, regions},
	{"paused region", false, pausedRegion},
	{"slow journal", false, slowJournal},
	{"silent journal", true, silentJournal},
	{"database", false, database},
	{"damage", false, damage},
	{"entities", false, entities},
	{"stuck handler", false, stuckHandler},
	{"rollout", false, rollout},
	{"constraints", false, constraints},
	{"brake", true, brake},
	{"memory", false, memory},
	{"certificate", false, certificate},
}

// TestAlerts injects each cause, and sees which alerts fire because of it.
func TestAlerts(t *testing.T) {
	set := os.Getenv("E2E")
	if set == "" {
		t.Skip("takes minutes: make e2e-alerts")
	}
	for _, s := range scenarios {
		if set == "full" || !s.long {
			t.Run(s.name, s.play)
		}
	}
}

// nothing does what belongs to the life of a cluster: no alert fires.
func nothing(t *testing.T) {
	c := start(t, "list-region", launcher.Options{Coordinators: 2, Regions: 3, Gateways: 1})
	c.silent("nothing has happened")
	c.work(200, 10*time.Second, lists)
	c.silent("commands succeed")
	c.restart("region-2")
	c.silent("a region was restarted")
	name, _, err := c.Active(c.Context())
	c.must(err)
	c.restart(name)
	c.work(100, 10*time.Second, lists)
	c.seen("there is an active coordinator", func(s scrape) bool { return s.sum("roost_coordinator_leader") == 1 })
	c.silent("the active coordinator was restarted")
	_, err = c.admin().Drain(c.Context(), &adminv1.DrainRequest{Region: "region-1", By: "the test"})
	c.must(err)
	c.seen("the region is empty", func(s scrape) bool { return s.sum("roost_region_shards", "instance", "region-1") == 0 })
	c.silent("a region was drained")
	c.call("/v1/Nobody/x/Nothing", "{}", time.Second)
	c.call("/v1/List/l1/Nothing", "{}", time.Second)
	for range 20 {
		c.call("/v1/List/l1/Refuse", "{}", time.Second)
	}
	c.silent("callers make mistakes, and get errors")
}

// activeCoordinator: if only the active coordinator dies, another one takes over.
func activeCoordinator(t *testing.T) {
	c := start(t, "list-region", launcher.Options{Coordinators: 2, Regions: 2, Gateways: 1})
	c.ok(lists(1))
	c.silent("before")
	name, _, err := c.Active(c.Context())
	c.must(err)
	c.kill(name)
	s := c.seen("it is unreachable, and another one is active", func(s scrape) bool {
		return s.sum("roost_coordinator_leader") == 1 && !allReachable(s)
	})
	c.prometheus.hold(s, time.Minute)
	s = c.seen("it is not a member any more", allReachable)
	c.fires(s, []string{"RoostProcessNotScraped", "RoostMemberLost"})
}

// allReachable reports whether everybody reaches all members.
func allReachable(s scrape) bool {
	ok := s.has("roost_member_reachable")
	s.each("roost_member_reachable", nil, func(x *sample) { ok = ok && x.value == 1 })
	return ok
}

// coordinators: all coordinators die.
func coordinators(t *testing.T) {
	c := start(t, "list-region", launcher.Options{Coordinators: 2, Regions: 2, Gateways: 1})
	c.ok(lists(1))
	c.silent("before")
	c.kill(c.named(launcher.Coordinator)...)
	s := c.seen("they are unreachable", func(s scrape) bool { return !allReachable(s) })
	c.fires(s, []string{"RoostNoActiveCoordinator", "RoostProcessNotScraped", "RoostMemberUnreachable", "RoostMemberLost"})
	c.killAll()
}

// regions: all regions die, and commands come.
func regions(t *testing.T) {
	c := start(t, "list-region", launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1})
	c.work(50, 10*time.Second, lists)
	c.silent("before")
	c.kill("region-1")
	s := c.seen("its shards have no owner", func(s scrape) bool { return s.sum("roost_shard_unallocated") > 0 })
	c.prometheus.hold(s, time.Minute)
	c.seen("it was declared down", func(s scrape) bool { return s.sum("roost_coordinator_regions") == 0 })
	c.work(20, time.Second, lists)
	c.fires(c.scrape(), []string{"RoostShardsUnallocated", "RoostCommandsFail", "RoostProcessNotScraped"}, "RoostMemberLost")
}

// pausedRegion: a region hangs, and is not declared down.
func pausedRegion(t *testing.T) {
	patient := []string{"--gossip.stable_after=10m"}
	c := start(t, "list-region", launcher.Options{Coordinators: 1, Regions: 2, Gateways: 1,
		Args: map[string][]string{launcher.Coordinator: patient, launcher.Region: patient}})
	c.ok(lists(1))
	c.silent("before")
	c.must(c.Signal("region-2", syscall.SIGSTOP))
	s := c.seen("it is unreachable", func(s scrape) bool { return !allReachable(s) })
	c.must(c.Signal("region-2", syscall.SIGCONT))
	c.fires(s, []string{"RoostMemberUnreachable", "RoostMemberLost", "RoostProcessNotScraped"})
}

// journalDB opens the file of the journal.
func (c *cluster) journalDB() *sql.DB {
	c.Helper()
	c.must(sqlite.RegisterVFS())
	q := url.Values{"vfs": {sqlite.VFS}, "_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: filepath.Join(c.dir, "journal.db"), RawQuery: q.Encode()}).String())
	c.must(err)
	c.Cleanup(func() { _ = db.Close() })
	return db
}

// lock keeps all others from writing for a while.
func (c *cluster) lock(db *sql.DB, d time.Duration) {
	c.Helper()
	tx, err := db.BeginTx(c.Context(), nil)
	c.must(err)
	c.wait(d)
	c.must(tx.Rollback())
}

func (c *cluster) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.Context().Done():
	}
}

// slowJournal: commits take more than a second.
func slowJournal(t *testing.T) {
	c := start(t, "list-region", launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1})
	c.work(50, 10*time.Second, lists)
	c.silent("before")
	db := c.journalDB()
	slow := func(s scrape) float64 {
		return s.sum("roost_journal_append_duration_seconds_count") - s.sum("roost_journal_append_duration_seconds_bucket", "le", "1")
	}
	before := slow(c.scrape())
	var s scrape
	c.until("commits are slow", func() bool {
		c.lock(db, 1500*time.Millisecond)
		c.ok(lists(1))
		s = c.scrape()
		return slow(s) >= before+3
	})
	c.fires(s, []string{"RoostJournalSlow"})
}

// silentJournal: the journal does not answer any more, nor does it refuse.
func silentJournal(t *testing.T) {
	server := postgrestest.Start(t)
	name, err := server.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	way := server.NewProxy(t)
	journal := []string{"--journal.url=" + way.URL(postgrestest.Superuser, name)}
	c := start(t, "list-region", launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1,
		Args: map[string][]string{launcher.Coordinator: journal, launcher.Region: journal}})
	c.work(50, 10*time.Second, lists)
	c.silent("before")
	way.Silence(true)
	var group sync.WaitGroup
	group.Go(func() { c.work(20, time.Second, lists) })
	s := c.seen("commits have failed, and one is in doubt", func(s scrape) bool {
		return s.sum("roost_journal_unknown_total") > 0 && s.sum("roost_journal_commits_failed_total", "instance", "region-1") > 0
	})
	group.Wait()
	c.fires(s, []string{"RoostJournalFails", "RoostJournalOutcomeUnknown", "RoostCommandsFail"}, "RoostJournalSlow", "RoostShardsUnallocated")
	c.killAll()
}

// database: one of two databases of the journal does not answer any more.
func database(t *testing.T) {
	first, second := postgrestest.Start(t), postgrestest.Start(t)
	var urls [2]string
	for i, server := range []*postgrestest.Server{first, second} {
		name, err := server.NewDatabase()
		if err != nil {
			t.Fatal(err)
		}
		urls[i] = server.URL(postgrestest.Superuser, name)
	}
	journal := []string{"--journal.url=" + urls[0], "--journal.databases=2=" + urls[1]}
	c := start(t, "list-region", launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1,
		Args: map[string][]string{launcher.Coordinator: journal, launcher.Region: append([]string{"--journal.types=List=2"}, journal...)}})
	c.work(50, 10*time.Second, lists)
	c.silent("before")
	second.Kill()
	c.work(20, time.Second, lists)
	s := c.seen("the database is down", func(s scrape) bool {
		return s.sum("roost_journal_database_down", "instance", "region-1", "roost_journal_database", "2") == 1
	})
	c.fires(s, []string{"RoostDatabaseDown", "RoostCommandsFail"}, "RoostJournalFails", "RoostJournalOutcomeUnknown", "RoostShardsUnallocated")
	second.Run()
	c.seen("it answers again", func(s scrape) bool { return s.sum("roost_journal_database_down") == 0 })
}

// damage: a record on the disk is not what it was.
func damage(t *testing.T) {
	c := start(t, "list-region", launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1})
	c.work(50, 10*time.Second, lists)
	c.silent("before")
	db := c.journalDB()
	var id, seq int64
	var body []byte
	c.must(db.QueryRow(`SELECT r.entity, r.seq, r.body FROM record r JOIN entity e ON e.id = r.entity
		WHERE e.type = 'List' AND e.name = 'l1' ORDER BY r.seq DESC LIMIT 1`).Scan(&id, &seq, &body))
	body[len(body)/2] ^= 0x10
	_, err := db.Exec("UPDATE record SET body = ? WHERE entity = ? AND seq = ?", body, id, seq)
	c.must(err)
	c.restart("region-1") // it has the list in memory
	c.silent("it is unread")
	var s scrape
	c.until("it is noticed", func() bool {
		c.call("/v1/List/l1/Add", `{"value":1}`, 5*time.Second)
		s = c.scrape()
		return s.sum("roost_journal_damaged_total") > 0
	})
	c.fires(s, []string{"RoostJournalDamaged"}, "RoostCommandsFail")
}

// entities: what entities do by themselves fails.
func entities(t *testing.T) {
	c := start(t, "failing-region", launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1})
	for i := range 20 {
		c.ok(fmt.Sprintf("/v1/Worker/w%d/Work", i), "{}")
	}
	c.silent("before")
	c.ok("/v1/Worker/w1/Post", `{"to":"w2","refuse":true}`)
	s := c.seen("there is a dead letter", func(s scrape) bool { return s.sum("roost_region_sends_dead_total") > 0 })
	c.fires(s, []string{"RoostDeadLetters"})

	c.ok("/v1/Worker/w3/Post", `{"to":"w4"}`)
	s = c.seen("a send fails", func(s scrape) bool { return s.sum("roost_region_sends_failing") > 0 })
	want := []string{"RoostSendsFail"}
	c.fires(s, want)

	c.ok("/v1/Worker/w5/Plan", "{}")
	s = c.seen("a reminder fails", func(s scrape) bool { return s.sum("roost_region_reminders_failing") > 0 })
	want = append(want, "RoostRemindersFail")
	c.fires(s, want)

	c.ok("/v1/Sentinel/s1/Break", "{}")
	c.restart("region-1")
	s = c.seen("all three fail", func(s scrape) bool {
		return s.sum("roost_region_remembered_failing") > 0 && s.sum("roost_region_reminders_failing") > 0 && s.sum("roost_region_sends_failing") > 0
	})
	c.fires(s, append(want, "RoostRememberedFail"))

	c.until("an entity is quarantined", func() bool {
		_, err := c.admin().Quarantine(c.Context(), &adminv1.QuarantineRequest{Type: "Worker", Id: "w1", By: "the test"})
		return err == nil
	})
	s = c.seen("one is quarantined", func(s scrape) bool { return s.sum("roost_entity_quarantined") == 1 })
	if fired := c.prometheus.hold(s, time.Minute); !slices.Contains(fired, "RoostEntityQuarantined") {
		t.Errorf("with a quarantined entity, %q fire", fired)
	}
}

// stuckHandler: a handler does not return, and continues when its turn was abandoned.
func stuckHandler(t *testing.T) {
	c := start(t, "failing-region", launcher.Options{Coordinators: 1, Regions: 2, Gateways: 1})
	c.ok("/v1/Worker/w1/Work", "{}")
	c.silent("before")
	at, err := c.admin().Where(c.Context(), "Worker", "w1")
	c.must(err)
	c.call("/v1/Worker/w1/Hang", "{}", time.Second)
	hangs := func(s scrape) bool {
		return s.sum("roost_entity_turn_longest_seconds", "roost_entity_type", "Worker") > 30
	}
	c.fires(c.seen("it has been running for long", hangs), []string{"RoostHandlerStuck"}, "RoostCommandsFail")

	other := map[string]string{"region-1": "region-2", "region-2": "region-1"}[at.Shard.Region]
	c.until("the shard is to move", func() bool {
		_, err := c.admin().Move(c.Context(), &adminv1.MoveRequest{Type: "Worker", Index: at.Shard.Index, Region: other, By: "the test"})
		return err == nil
	})
	s := c.seen("the turn is abandoned", func(s scrape) bool { return s.sum("roost_entity_abandoned_total") == 1 })
	c.ok("/v1/Worker/w1/Work", "{}")
	if !hangs(s) {
		t.Error("the handler of an abandoned turn does not count any more, although it runs")
	}
	c.kill(at.Shard.Region) // its handler would keep it from ending soon
}

// rollout: a rollout stands still, then goes back although not all can be read, and then the last
// region that reads it goes.
func rollout(t *testing.T) {
	c := start(t, "list-region", launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1})
	c.work(50, 10*time.Second, lists)
	c.silent("before")
	c.differ("region-2", func(cmd *exec.Cmd) { cmd.Path = filepath.Join(binaries(t), "list-region-v2") })
	name, err := c.AddRegion(c.Context())
	c.must(err)
	c.must(c.Ready(c.Context(), name))
	s := c.seen("one of two regions runs the old version", func(s scrape) bool { return s.sum("roost_coordinator_rollout_behind") == 1 })
	if fired := c.prometheus.hold(s, 20*time.Minute); len(fired) > 0 {
		t.Errorf("a rollout that continues: %q fire", fired)
	}
	c.fires(s, []string{"RoostRolloutStuck"})

	c.must(c.Stop(c.Context(), "region-1"))
	c.work(50, 10*time.Second, lists) // stores events that version 1 does not read
	c.must(c.Restart(c.Context(), "region-1"))
	c.must(c.Ready(c.Context(), "region-1"))
	c.until("the target is version 1", func() bool {
		_, err := c.admin().SetTarget(c.Context(), "1", "the test")
		return err == nil
	})
	s = c.seen("version 1 cannot read all", func(s scrape) bool { return s.sum("roost_coordinator_rollout_unreadable") > 0 })
	c.fires(s, []string{"RoostRolloutUnreadable", "RoostRolloutStuck"})

	c.must(c.Stop(c.Context(), "region-2"))
	s = c.seen("shards are unreadable", func(s scrape) bool { return s.sum("roost_shard_unreadable") > 0 })
	c.fires(s, []string{"RoostShardsUnreadable", "RoostProcessNotScraped"}, "RoostMemberLost")
}

// constraints: the only region has more shards than its capacity, gets some although it is cordoned, and
// has one that is pinned to a region that is not there.
func constraints(t *testing.T) {
	c := start(t, "list-region", launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1, Args: map[string][]string{
		launcher.Region: {"--region.capacity=20"},
	}})
	c.work(10, 10*time.Second, lists)
	c.silent("before")
	at, err := c.admin().Where(c.Context(), "List", "l1")
	c.must(err)
	steer := func(cordoned bool, pin string) {
		c.until("the requests are stored", func() bool {
			_, err := c.admin().Cordon(c.Context(), &adminv1.CordonRequest{Region: "region-1", Lift: !cordoned, By: "the test"})
			if err == nil {
				_, err = c.admin().Pin(c.Context(), &adminv1.PinRequest{Pins: []*adminv1.Pin{{Type: "List", Index: at.Shard.Index, Region: pin}}, Ahead: true, By: "the test"})
			}
			return err == nil
		})
	}
	broken := func(s scrape, constraint string) float64 {
		return s.sum("roost_shard_constraint_broken", "roost_constraint", constraint)
	}
	steer(true, "region-9")
	c.work(60, 10*time.Second, lists)
	s := c.seen("all constraints but the zone's are broken", func(s scrape) bool {
		return broken(s, "capacity") > 0 && broken(s, "pin") == 1 && broken(s, "cordon") > 0
	})
	c.fires(s, []string{"RoostConstraintBroken"})
	steer(false, "")
	c.seen("only the capacity is broken", func(s scrape) bool {
		return broken(s, "capacity") > 0 && broken(s, "pin") == 0 && broken(s, "cordon") == 0
	})
}

// brake: commands become slow while shards move for balance.
func brake(t *testing.T) {
	c := start(t, "list-region", launcher.Options{Coordinators: 1, Regions: 2, Gateways: 1, Args: map[string][]string{
		launcher.Coordinator: {"--allocation.max_handoffs=1", "--allocation.brake_window=2s", "--allocation.brake_pause=1h", "--allocation.brake_samples=50"},
	}})
	c.work(200, 30*time.Second, lists)
	pin := func(region string) {
		var pins []*adminv1.Pin
		for i := range uint32(64) {
			pins = append(pins, &adminv1.Pin{Type: "List", Index: i, Region: region})
		}
		c.until("pinned to "+region, func() bool {
			_, err := c.admin().Pin(c.Context(), &adminv1.PinRequest{Pins: pins, By: "the test"})
			return err == nil
		})
	}
	var traffic sync.WaitGroup
	over := make(chan struct{})
	for w := range 32 {
		traffic.Go(func() {
			for i := w; ; i += 32 {
				select {
				case <-over:
					return
				case <-time.After(100 * time.Millisecond):
					path, body := lists(i % 200)
					c.call(path, body, 10*time.Second)
				}
			}
		})
	}
	defer func() { close(over); traffic.Wait() }()
	pin("region-1")
	c.until("all shards are pinned, and it is known what is usual", func() bool {
		res, err := c.admin().Members(c.Context())
		return err == nil && res.UsualP99Us > 0 && res.P99Us < 2*res.UsualP99Us && res.Brake == nil &&
			c.scrape().sum("roost_region_shards", "instance", "region-2") == 0 &&
			c.scrape().sum("roost_shard_constraint_broken") == 0 // the coordinator counts it periodically, not with each move
	})
	c.silent("before")
	db := c.journalDB()
	slow, stopped := make(chan struct{}), make(chan struct{})
	heal := sync.OnceFunc(func() { close(slow); <-stopped })
	defer heal()
	go func() {
		defer close(stopped)
		for {
			select {
			case <-slow:
				return
			case <-time.After(10 * time.Millisecond):
				c.lock(db, 100*time.Millisecond)
			}
		}
	}()
	pin("")
	s := c.seen("moves are stopped", func(s scrape) bool {
		return s.has("roost_coordinator_moves_budget_percent") && s.sum("roost_coordinator_moves_budget_percent") == 0
	})
	heal()
	c.fires(s, []string{"RoostMovesStopped"}, "RoostJournalSlow")
}

// memory: a process has hardly more memory than it needs.
func memory(t *testing.T) {
	c := start(t, "list-region", launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1})
	c.ok(lists(1))
	c.silent("before")
	c.differ("gateway-1", func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "GOMEMLIMIT=3MiB") })
	c.restart("gateway-1")
	s := c.seen("the live heap is near the limit", func(s scrape) bool {
		return s.sum("go_gc_heap_live_bytes", "instance", "gateway-1") > 0.8*s.sum("go_gc_gomemlimit_bytes", "instance", "gateway-1")
	})
	c.fires(s, []string{"RoostMemoryNearLimit"})
}

// certificate: a certificate that is valid for long is replaced by one that is not.
func certificate(t *testing.T) {
	c, files := startTLS(t)
	c.ok(lists(1))
	c.silent("before")
	files.issue(24 * time.Hour)
	s := c.seen("the new certificate is used", func(s scrape) bool {
		least := time.Hour.Seconds() * 1e6
		s.each("roost_tls_certificate_remaining_seconds", nil, func(x *sample) { least = min(least, x.value) })
		return least < (25 * time.Hour).Seconds()
	})
	c.fires(s, []string{"RoostCertificateExpires"})
	files.issue(90 * 24 * time.Hour)
}

// TestEachAlertHasACause: a rule without a scenario would never be seen to fire.
func TestEachAlertHasACause(t *testing.T) {
	source, err := os.ReadFile("alerts_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range readRules(t) {
		if names = append(names, r.Alert); !strings.Contains(string(source), `"`+r.Alert+`"`) {
			t.Errorf("no scenario injects the cause of %s", r.Alert)
		}
	}
	if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("two alerts have one name: %q", names)
	}
}

package cluster

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
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

	"google.golang.org/protobuf/encoding/protojson"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/netns"
	"github.com/roost-cluster/roost/libs/adminclient"
	"github.com/roost-cluster/roost/libs/journal/sqlite"
	"github.com/roost-cluster/roost/libs/test/testbin"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
)

// TestExplain injects what may keep a command from being executed, and has the processes explain it. Each must name
// the right cause. How long after the injection it does so is printed, and not judged.
func TestExplain(t *testing.T) {
	if os.Getenv("E2E") == "" {
		t.Skip("takes a minute: make e2e RUN=explain, or make e2e SET=short for a part")
	}
	for _, s := range []struct {
		name  string
		short bool
		play  func(*explained)
	}{
		{"entity", false, explainEntity}, {"journal", false, explainJournal}, {"owner", true, explainOwner}, {"starting", false, explainStarting},
		{"unreadable", false, explainUnreadable}, {"network", false, explainNetwork},
		{"doctor", false, explainDoctor},
	} {
		if s.short || fullSet() {
			t.Run("explain-"+s.name, func(t *testing.T) {
				ran.Store(true)
				x := &explained{run: &run{T: t, store: onSQLite, dir: t.TempDir(), allowed: map[string]string{}, retired: map[string]bool{}}}
				s.play(x)
				t.Logf("%-10s %s", s.name, strings.Join(x.figures, ", "))
			})
		}
	}
}

// explained is a run without load.
type explained struct {
	*run
	calls sync.WaitGroup
}

// begin starts a cluster with a region binary of these tests.
func (x *explained) begin(region string, o launcher.Options) {
	x.Helper()
	o.Dir, o.StartTimeout, o.Changed = x.dir, waitLimit, x.changed
	if o.Args == nil {
		o.Args = map[string][]string{}
	}
	args := o.Args
	o.RegionBinary = filepath.Join(testbin.Build(x.T, "e2e/cluster/cmd/"+region), region)
	o.Args = map[string][]string{}
	x.setUpJournal(&o)
	for role, more := range args { // order-free: fills a map
		o.Args[role] = append(slices.Clone(o.Args[role]), more...)
	}
	x.Cleanup(x.calls.Wait)
	x.cluster = start(x.T, o)
}

// askers are the management URLs of all processes that explain.
func (x *explained) askers() map[string]string {
	urls := map[string]string{}
	for _, p := range x.cluster.Processes() {
		if p.Role != launcher.Region && p.PID != 0 {
			urls[p.Name] = "http://" + p.Management
		}
	}
	return urls
}

// explain asks one process.
func (x *explained) explain(url, entity string) (*diagnosisv1.ExplainResponse, error) {
	typ, id, _ := strings.Cut(entity, "/")
	return adminclient.NewDiagnosis(url).Explain(x.Context(), &diagnosisv1.ExplainRequest{Type: typ, Id: id, Stack: true})
}

// names waits until every process names a finding about an entity first, and some text with it.
func (x *explained) names(finding, entity, text string) {
	x.Helper()
	x.namedBy(x.askers(), finding, entity, text)
}

func (x *explained) namedBy(askers map[string]string, finding, entity, text string) {
	x.Helper()
	since := time.Now()
	var took []string
	for name, url := range askers { // order-free: each of them must
		var last *diagnosisv1.ExplainResponse
		eventually(x.T, waitLimit, func() (err error) {
			if last, err = x.explain(url, entity); err != nil {
				return err
			}
			if f := last.Findings[0]; f.Name != finding || !strings.Contains(f.Text, text) {
				return fmt.Errorf("%s finds %s first, wanted %s with %q: %v", name, f.Name, finding, text, last)
			}
			return nil
		})
		took = append(took, fmt.Sprintf("%s %.0f ms, asking %.0f of them", name, time.Since(since).Seconds()*1000, float64(last.TookUs)/1000))
	}
	x.figure("%s (%s)", finding, strings.Join(took, "; "))
}

// send sends a command, and does not wait for its end.
func (x *explained) send(path, body string) {
	x.calls.Go(func() {
		req, err := http.NewRequestWithContext(x.Context(), http.MethodPost, x.cluster.Gateways()[0]+path, bytes.NewReader([]byte(body)))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Roost-Timeout", "40s")
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
		}
	})
}

// ok sends a command until it has succeeded.
func (x *explained) ok(path, body string) {
	x.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	eventually(x.T, waitLimit, func() error {
		res, err := client.Post(x.cluster.Gateways()[0]+path, "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s is answered %s", path, res.Status)
		}
		return nil
	})
}

// where returns the shard of an entity.
func (x *explained) where(entity string) (s *adminv1.Shard) {
	x.Helper()
	typ, id, _ := strings.Cut(entity, "/")
	eventually(x.T, waitLimit, func() error {
		res, err := x.admin().Where(x.Context(), typ, id)
		s = res.GetShard()
		return err
	})
	return s
}

// explainEntity: what is wrong with one entity, or nothing.
func explainEntity(x *explained) {
	x.begin("living-region", launcher.Options{Coordinators: 2, Regions: 2, Gateways: 1, Args: map[string][]string{launcher.Region: {"--region.mailbox=4"}}})
	x.names("unknown-type", "Nobody/x", "registered are")
	x.names("unallocated", "Peer/anna", "first command")
	x.ok("/v1/Peer/anna/Take", `{"n":1}`)
	x.names("active", "Peer/anna", "in memory")

	x.send("/v1/Peer/anna/Visit", `{"before":30000}`)
	x.send("/v1/Peer/anna/Take", `{"n":2}`)
	x.names("handler-stuck", "Peer/anna", "the handler Visit of Peer/anna")
	for name, url := range x.askers() { // order-free: the first one that is found
		res, err := x.explain(url, "Peer/anna")
		x.must(err)
		if !strings.Contains(res.Stack, "main.visitWith") {
			x.Errorf("%s shows this stack: %s", name, res.Stack)
		}
	}
	x.send("/v1/Peer/bert/Look", `{"path":["anna"],"read":true}`)
	x.names("waits-for-entity", "Peer/bert", "waiting for Peer/anna")

	over, cancel := context.WithCancel(x.Context())
	for range 8 {
		x.calls.Go(func() {
			for over.Err() == nil {
				res, err := http.Post(x.cluster.Gateways()[0]+"/v1/Peer/carl/Visit", "application/json", strings.NewReader(`{"before":600}`))
				if err == nil {
					_ = res.Body.Close()
				}
				x.wait(20 * time.Millisecond)
			}
		})
	}
	x.names("mailbox-full", "Peer/carl", "is full (4 commands)")
	cancel()

	shard := x.where("Peer/anna")
	other := ""
	for i := 0; other == ""; i++ {
		if id := fmt.Sprintf("Peer/p%d", i); x.where(id).Index == shard.Index {
			other = id
		}
	}
	_, err := x.admin().Drain(x.Context(), &adminv1.DrainRequest{Region: shard.Region, By: operator})
	x.must(err)
	x.names("shard-handing-off", other, "leaves "+shard.Region)
}

// explainJournal: the journal is slow, refuses, or has a damaged record.
func explainJournal(x *explained) {
	x.begin("living-region", launcher.Options{Coordinators: 1, Regions: 2, Gateways: 1})
	x.ok("/v1/Peer/anna/Take", `{"n":1}`)
	x.ok("/v1/Peer/dora/Take", `{"n":1}`)

	tx, err := x.writer().BeginTx(x.Context(), nil)
	x.must(err)
	x.send("/v1/Peer/anna/Take", `{"n":2}`)
	x.names("journal-slow", "Peer/anna", "has been committing for")
	x.must(tx.Rollback())
	x.names("active", "Peer/anna", "")

	_, err = x.writer().ExecContext(x.Context(), `UPDATE record SET body = substr(body, 1, length(body) - 4) || x'ffffffff'
		WHERE entity = (SELECT id FROM entity WHERE type = 'Peer' AND name = 'dora')`)
	x.must(err)
	shard := x.where("Peer/dora")
	to := map[string]string{"region-1": "region-2", "region-2": "region-1"}[shard.Region]
	x.steered(func(ctx context.Context, a *adminclient.Client) (*adminv1.SteerResponse, error) {
		return a.Move(ctx, &adminv1.MoveRequest{Type: "Peer", Index: shard.Index, Region: to, By: operator})
	})
	x.names("entity-damaged", "Peer/dora", "is damaged")

	shard = x.where("Peer/anna")
	_, err = x.writer().ExecContext(x.Context(), `UPDATE fence SET epoch = epoch + 1000 WHERE type = 'Peer' AND shard = ?`, shard.Index)
	x.must(err)
	x.names("journal-refuses", "Peer/anna", "the fence is at")
}

// explainOwner: the region of the shard is paused, was killed, or is not there at all.
func explainOwner(x *explained) {
	x.begin("living-region", launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1})
	x.ok("/v1/Peer/anna/Take", `{"n":1}`)
	x.must(x.cluster.Signal("region-1", syscall.SIGSTOP))
	x.names("owner-paused", "Peer/anna", "region-1")
	x.must(x.cluster.Signal("region-1", syscall.SIGCONT))
	x.names("active", "Peer/anna", "")
	x.kill("region-1")
	x.names("owner-unreachable", "Peer/anna", "no process listens")
	_, err := adminclient.NewMembership(x.cluster.Admin()...).Down(x.Context(), "region-1")
	x.must(err)
	x.names("no-region", "Peer/anna", "no registered region hosts")
	x.up()
	x.ok("/v1/Peer/anna/Take", `{"n":2}`)
	x.names("active", "Peer/anna", "")
	x.kill("coordinator-1")
	x.namedBy(map[string]string{"gateway-1": x.askers()["gateway-1"]}, "active", "Peer/anna", "")
	x.up()
}

// explainStarting: a shard of a volatile type starts, and its new owner waits for the states that the previous one
// has kept. That one is paused in the moment after it has handed the shard off.
func explainStarting(x *explained) {
	x.begin("list-region", launcher.Options{Coordinators: 1, Regions: 2, Gateways: 1, Args: map[string][]string{launcher.Region: {"--region.kept_wait=1500ms"}}})
	for i := range visitedEntities {
		x.ok(fmt.Sprintf("/v1/Visits/v%d/Hit", i), "{}")
	}
	for round := range 6 {
		from, to := "region-1", "region-2"
		if round%2 == 1 {
			from, to = to, from
		}
		_, err := x.admin().Drain(x.Context(), &adminv1.DrainRequest{Region: to, Resume: true, By: operator})
		x.must(err)
		_, err = x.admin().Drain(x.Context(), &adminv1.DrainRequest{Region: from, By: operator})
		x.must(err)
		if x.catchStarting(from) {
			return
		}
	}
	x.Error("no shard was caught while it started")
}

// visitedEntities is the number of entities, in 48 shards.
const visitedEntities = 60

// catchStarting pauses a region that is drained again and again, until a shard that it has just left is explained.
func (x *explained) catchStarting(from string) bool {
	x.Helper()
	url := x.askers()["coordinator-1"]
	for {
		x.wait(5 * time.Millisecond)
		x.must(x.cluster.Signal(from, syscall.SIGSTOP))
		paused, found := time.Now(), ""
		res, err := x.admin().Shards(x.Context(), "Visits", "")
		x.must(err)
		left := 0
		for _, s := range res.Shards {
			if s.Region == from {
				left++
			}
			for i := 0; s.Phase == "starting" && found == "" && i < visitedEntities; i++ {
				res, err := x.explain(url, fmt.Sprintf("Visits/v%d", i))
				if err == nil && res.GetIndex() == s.Index && res.Findings[0].Name == "shard-starting" && strings.Contains(res.Findings[0].Text, "has kept") {
					found = res.Findings[0].Text
				}
			}
		}
		took := time.Since(paused)
		x.must(x.cluster.Signal(from, syscall.SIGCONT))
		if found != "" {
			x.figure("shard-starting (coordinator-1 %.0f ms after the pause): %s", took.Seconds()*1000, found)
		}
		if found != "" || left == 0 {
			return found != ""
		}
	}
}

// explainUnreadable: the only region left does not read what another version has stored.
func explainUnreadable(x *explained) {
	second := filepath.Join(binaries(x.T), "list-region-v2")
	x.begin("list-region", launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1, Start: func(name string, cmd *exec.Cmd) error {
		if name == "region-2" {
			cmd.Path = second
		}
		return cmd.Start()
	}})
	name, err := x.cluster.AddRegion(x.Context())
	x.must(err)
	x.must(x.cluster.Ready(x.Context(), name))
	x.must(x.cluster.Stop(x.Context(), "region-1"))
	x.ok("/v1/List/l1/Add", `{"value":1}`)
	x.must(x.cluster.Restart(x.Context(), "region-1"))
	x.must(x.cluster.Ready(x.Context(), "region-1"))
	x.kill("region-2")
	x.names("unreadable", "List/l1", "no region reads all")
}

// explainNetwork: a gateway, or the owner, is cut off.
func explainNetwork(x *explained) {
	x.net = netns.New(x.T)
	x.begin("living-region", launcher.Options{Coordinators: 1, Regions: 2, Gateways: 2, Address: x.net.Address, Start: x.net.Start})
	x.ok("/v1/Peer/anna/Take", `{"n":1}`)
	askers := x.askers()
	eventually(x.T, waitLimit, func() error { // a coordinator knows no gateway that is cut off before its first card
		res, err := x.admin().Members(x.Context())
		if n := len(res.GetGateways()); err == nil && n < 2 {
			err = fmt.Errorf("the coordinator knows %d gateways", n)
		}
		return err
	})
	x.net.Cut("gateway-2", x.run.names("gateway-2")...)
	x.namedBy(map[string]string{"gateway-2": askers["gateway-2"]}, "table-stale", "Peer/anna", "gateway")
	x.namedBy(map[string]string{"coordinator-1": askers["coordinator-1"], "gateway-1": askers["gateway-1"]}, "table-stale", "Peer/anna", "cut off")
	x.net.Heal()
	x.names("active", "Peer/anna", "")
	owner := x.where("Peer/anna").Region
	x.allowDeath(declaredDown, owner)
	x.net.Cut(owner, x.run.names(owner)...)
	delete(askers, "gateway-2")
	since := time.Now()
	res, err := x.explain(askers["coordinator-1"], "Peer/anna")
	x.must(err)
	if f := res.Findings[0]; f.Name != "owner-unreachable" || !strings.Contains(f.Text, "its host does not answer") {
		x.Errorf("the owner is cut off: %v", res)
	}
	x.figure("owner-unreachable (coordinator-1 %.0f ms)", time.Since(since).Seconds()*1000)
	x.net.Heal()
}

// explainDoctor: the command line lists what is unwise about a cluster like roost dev's, and the silent process.
func explainDoctor(x *explained) {
	x.begin("living-region", launcher.Options{Coordinators: 2, Regions: 2, Gateways: 1})
	x.ok("/v1/Peer/anna/Take", `{"n":1}`) // so that the gateway has sent a card
	doctor := func() (names []string, code int, text string) {
		cmd := exec.CommandContext(x.Context(), filepath.Join(binaries(x.T), "roost"), "cluster", "doctor", "-o", "json", "--admin", strings.Join(x.cluster.Admin(), ","))
		raw, err := cmd.Output()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			x.Fatal(err)
		}
		res := &adminv1.ExamineResponse{}
		x.must(protojson.Unmarshal(raw, res))
		for _, a := range res.Advice {
			names, text = append(names, a.Name), text+a.Text+"\n"
		}
		return names, cmd.ProcessState.ExitCode(), text
	}
	found := func(want ...string) {
		x.Helper()
		eventually(x.T, waitLimit, func() error {
			names, code, text := doctor()
			for _, w := range want {
				if !slices.Contains(names, w) {
					return fmt.Errorf("%s is not found: exit code %d, %s\n%s", w, code, names, text)
				}
			}
			if code != 1 {
				return fmt.Errorf("exit code %d", code)
			}
			return nil
		})
	}
	found("tls-off", "no-authentication", "one-gateway", "one-host", "memory-unlimited")
	if names, _, text := doctor(); slices.ContainsFunc(names, func(n string) bool {
		return slices.Contains([]string{"process-silent", "clocks-apart", "version-skew", "lease-unusable", "one-coordinator", "sqlite-several-hosts"}, n)
	}) {
		x.Errorf("found without reason: %s\n%s", names, text)
	}
	x.must(x.cluster.Signal("region-2", syscall.SIGSTOP))
	found("process-silent")
	x.must(x.cluster.Signal("region-2", syscall.SIGCONT))
	x.kill("region-2")
	active, _ := x.active()
	other := map[string]string{"coordinator-1": "coordinator-2", "coordinator-2": "coordinator-1"}[active]
	x.kill(other)
	found("process-silent", "no-standby")
	x.figure("roost cluster doctor has found what is unwise, a paused region, and that no standby is left")
	x.up()
}

// writer opens the file of the journal, for transactions that lock it at once.
func (x *explained) writer() *sql.DB {
	x.Helper()
	q := url.Values{"vfs": {sqlite.VFS}, "_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: filepath.Join(x.dir, "journal.db"), RawQuery: q.Encode()}).String())
	x.must(err)
	x.Cleanup(func() { _ = db.Close() })
	return db
}

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

// living is a scenario about what entities do by themselves and with each other.
type living struct {
	name string
	// on lists the stores of the journal; default both SQLite and PostgreSQL.
	on []string
	// short lists its stores in the short set.
	short []string
	// regions is their number; default 3.
	regions int
	args    []string // further flags of regions
	// contained has each region in a process namespace of its own, as in a container.
	contained bool
	play      func(l *livingRun)
}

// livingRun is one run of such a scenario. Its clients use plain HTTP, and repeat a command
// with the same key until it is answered.
type livingRun struct {
	*run
	gateways []string
	http     *http.Client
	next     atomic.Int64 // gateway
	repeats  atomic.Int64 // of requests
	others   atomic.Int64 // entities that live traffic has called since the cluster was started
}

var livings = []living{
	{name: "reminders", short: server, play: playReminders},
	{name: "sends", short: files, play: playSends},
	{name: "asks", play: playAsks},
	{name: "million", regions: 1, play: playMillion},
	{name: "burst", play: playBurst},
	{name: "remembered", play: playRemembered, args: []string{"--region.passivation=Poller=none,Peer=none"}},
	{name: "quarantine", short: files, play: playQuarantine},
	{name: "quarantine-contained", on: files, play: playQuarantine, contained: true},
	{name: "repair-record", play: playRepairRecord},
	{name: "rows-deleted", play: playRowsDeleted},
	{name: "deletion", on: files, regions: 2, play: playDeletion, args: []string{
		"--region.dedupe_age=1m", "--region.sends.max_age=30s", "--region.purge.interval=5s"}},
}

// TestEntities runs the scenarios of reminders, remembered entities, deletes, asks and sends.
func TestEntities(t *testing.T) {
	if os.Getenv("E2E") == "" {
		t.Skip("takes minutes: make e2e for all of them, make e2e SET=short for the most important ones")
	}
	for i := range livings {
		s := &livings[i]
		stores := s.short
		if fullSet() {
			if stores = s.on; stores == nil {
				stores = []string{onSQLite, onPostgres}
			}
		}
		for _, store := range stores {
			t.Run(s.name+"/"+store, func(t *testing.T) {
				ran.Store(true)
				s.run(t, store)
			})
		}
	}
}

func (s *living) run(t *testing.T, store string) {
	l := &livingRun{
		run:  &run{T: t, store: store, dir: t.TempDir(), allowed: map[string]string{}, retired: map[string]bool{}},
		http: &http.Client{Timeout: waitLimit, Transport: &http.Transport{MaxIdleConnsPerHost: 512}},
	}
	t.Cleanup(l.http.CloseIdleConnections)
	regions := s.regions
	if regions == 0 {
		regions = 3
	}
	o := launcher.Options{
		Coordinators: 2, Regions: regions, Gateways: 2, Dir: l.dir, Args: map[string][]string{},
		RegionBinary: filepath.Join(testbin.Build(t, "e2e/cluster/cmd/living-region"), "living-region"),
		Changed:      l.changed, StartTimeout: waitLimit,
	}
	if s.contained {
		o.Start = l.contain
	}
	l.setUpJournal(&o)
	o.Args[launcher.Region] = append(slices.Clone(o.Args[launcher.Region]), s.args...)
	l.cluster = start(t, o)
	l.gateways = l.cluster.Gateways()
	s.play(l)
	l.judgeDeaths()
	t.Logf("%-12s %-10s %s", s.name, store, strings.Join(l.figures, ", "))
	if len(l.void) > 0 {
		t.Errorf("void: %s", strings.Join(l.void, "; "))
	}
}

// refusal is the answer of a gateway to a command that was not successful.
type refusal struct {
	Code, Msg string
	Meta      struct{ Outcome, Error string }
}

// post sends a command once. It returns the reply or the refusal; an error: there was no
// answer.
func (l *livingRun) post(ctx context.Context, path, key string, in any, timeout time.Duration) (reply []byte, refused *refusal, err error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, nil, err
	}
	gateway := l.gateways[int(l.next.Add(1))%len(l.gateways)]
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway+path, bytes.NewReader(raw))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if strings.HasPrefix(path, "/v1/") {
		req.Header.Set("Roost-Timeout", fmt.Sprint(timeout.Milliseconds(), "ms"))
	}
	res, err := l.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	raw, err = io.ReadAll(res.Body)
	if _ = res.Body.Close(); err != nil {
		return nil, nil, err
	}
	if res.StatusCode == http.StatusOK {
		return raw, nil, nil
	}
	refused = &refusal{}
	if err := json.Unmarshal(raw, refused); err != nil {
		return nil, nil, fmt.Errorf("an answer that is not JSON: %.200q", raw)
	}
	return nil, refused, nil
}

// count sends a command with a key until it has succeeded, and returns the count in its reply.
func (l *livingRun) count(path, key string, in any) (int64, error) {
	deadline := time.Now().Add(2 * waitLimit)
	for {
		raw, refused, err := l.post(l.Context(), path, key, in, 20*time.Second)
		if refused == nil && err == nil {
			var reply struct{ N int64 }
			return reply.N, json.Unmarshal(raw, &reply)
		}
		if refused != nil && refused.Meta.Outcome == "executed" {
			return 0, fmt.Errorf("%s: %s: %s", path, refused.Code, refused.Msg)
		}
		if l.repeats.Add(1); time.Now().After(deadline) || l.Context().Err() != nil {
			return 0, fmt.Errorf("%s was never answered; at last: %v %v", path, refused, err)
		}
		l.wait(50 * time.Millisecond)
	}
}

// each calls do for 0 to n-1, some of them at a time, and ends the test after an error.
func (l *livingRun) each(n, workers int, do func(i int) error) {
	l.Helper()
	var next atomic.Int64
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range workers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	group.Wait()
	if failed != nil {
		l.Fatal(failed)
	}
}

// command is one of a batch.
type command struct {
	typ, id, name, key string
	in                 any
}

// batch sends commands by AskMany until all have succeeded.
func (l *livingRun) batch(commands []command) error {
	type item struct {
		Type    string `json:"type"`
		ID      string `json:"id"`
		Command string `json:"command"`
		Payload []byte `json:"payload"`
		Key     string `json:"idempotency_key"`
		Timeout int64  `json:"timeout_ms"`
	}
	deadline := time.Now().Add(2 * waitLimit)
	for last := ""; ; l.wait(50 * time.Millisecond) {
		if time.Now().After(deadline) || l.Context().Err() != nil {
			return fmt.Errorf("%d commands of a batch were never answered; at last: %s", len(commands), last)
		}
		items := make([]item, len(commands))
		for i, c := range commands {
			raw, err := json.Marshal(c.in)
			if err != nil {
				return err
			}
			items[i] = item{c.typ, c.id, c.name, raw, c.key, 20_000}
		}
		raw, refused, err := l.post(l.Context(), "/twirp/roost.gateway.v1.Entities/AskMany", "", map[string]any{"items": items}, 0)
		if refused != nil || err != nil {
			last = fmt.Sprint(refused, err)
			l.repeats.Add(1)
			continue
		}
		var res struct {
			Results []struct {
				Error *struct{ Code, Message string }
			}
		}
		if err := json.Unmarshal(raw, &res); err != nil || len(res.Results) != len(items) {
			return fmt.Errorf("an answer that is not one to a batch: %.200q", raw)
		}
		var again []command
		for i := range res.Results {
			if e := res.Results[i].Error; e != nil {
				last = e.Code + ": " + e.Message
				again = append(again, commands[i])
			}
		}
		if commands = again; len(commands) == 0 {
			return nil
		}
		l.repeats.Add(int64(len(commands)))
	}
}

// done is an event of these entities, as it is stored.
type done struct {
	entity string
	stored time.Time
	What   string
	N, Due int64
	Pad    string
}

// events reads the events of a type, in the order of each entity's records, by plain SQL.
func (l *livingRun) events(typ string, see func(done)) {
	l.Helper()
	query := `SELECT e.name, r.body FROM record r JOIN entity e ON e.id = r.entity WHERE e.type = ? ORDER BY e.name, r.seq`
	if l.store == onPostgres {
		query = strings.Replace(query, "?", "$1", 1)
	}
	rows, err := l.db.QueryContext(l.Context(), query, typ)
	l.must(err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		var body []byte
		l.must(rows.Scan(&name, &body))
		r, err := history.DecodeRecord(body)
		l.must(err)
		for _, e := range r.Events {
			d := done{entity: name, stored: r.Stored}
			l.must(json.Unmarshal(e.Payload, &d))
			see(d)
		}
	}
	l.must(rows.Err())
}

// number reads a number by plain SQL.
func (l *livingRun) number(query string) (n int64) {
	l.Helper()
	l.must(l.db.QueryRowContext(l.Context(), query).Scan(&n))
	return n
}

// stopAll ends all processes by SIGTERM, regions and gateways before coordinators.
func (l *livingRun) stopAll() {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 2*waitLimit)
	defer cancel()
	for _, coordinators := range []bool{false, true} {
		var group sync.WaitGroup
		for _, p := range l.cluster.Processes() {
			if p.PID != 0 && (p.Role == launcher.Coordinator) == coordinators {
				group.Go(func() {
					if err := l.cluster.Stop(ctx, p.Name); err != nil {
						l.Error(err)
					}
				})
			}
		}
		group.Wait()
	}
}

// askMany sends a batch of commands of peers once, and returns how each has ended: as ok, or by
// a code.
func (l *livingRun) askMany(name string, n int, item func(i int) (id string, in any)) (ends []string, err error) {
	items := make([]map[string]any, n)
	for i := range items {
		id, in := item(i)
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		items[i] = map[string]any{"type": "Peer", "id": id, "command": name, "payload": raw, "timeout_ms": 20_000}
	}
	raw, refused, err := l.post(l.Context(), "/twirp/roost.gateway.v1.Entities/AskMany", "", map[string]any{"items": items}, 0)
	if err != nil {
		return nil, err
	}
	if refused != nil {
		return slices.Repeat([]string{refused.Code}, n), nil
	}
	var res struct {
		Results []struct{ Error *struct{ Code string } }
	}
	if err := json.Unmarshal(raw, &res); err != nil || len(res.Results) != n {
		return nil, fmt.Errorf("an answer that is not one to a batch: %.200q", raw)
	}
	for _, r := range res.Results {
		if r.Error != nil {
			ends = append(ends, r.Error.Code)
			continue
		}
		ends = append(ends, "ok")
	}
	return ends, nil
}

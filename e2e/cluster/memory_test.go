package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

// TestPassivationIsReread: a region puts another strategy into effect when its configuration
// file changes, and keeps the old one when the file cannot be used.
func TestPassivationIsReread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roost.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("region:\n  passivation:\n    Counter: none\n")
	c := start(t, launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1, Args: map[string][]string{launcher.Region: {"--config=" + file}}})
	for i := range 10 {
		url := fmt.Sprintf("%s/v1/Counter/c%d/Add", c.Gateways()[0], i)
		res, err := http.Post(url, "application/json", bytes.NewReader([]byte(`{"delta":5}`)))
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", url, res.Status)
		}
	}
	region := processOf(c, launcher.Region)
	active := func(want float64) func() error {
		return func() error {
			n, err := scrape(region, "roost_entity_active")
			if err == nil && n != want {
				err = fmt.Errorf("%v entities are active, want %v", n, want)
			}
			return err
		}
	}
	eventually(t, waitLimit, active(10))
	write("region:\n  passivation:\n    Counter: idle=nonsense\n")
	eventually(t, waitLimit, func() error { return logHas(region, "keeping old settings") })
	eventually(t, waitLimit, active(10))
	write("region:\n  passivation:\n    Counter: idle=100ms\n")
	eventually(t, waitLimit, active(0))
	if err := logHas(region, "region.passivation"); err != nil {
		t.Error(err)
	}
}

// processOf returns the first process of a role.
func processOf(c *launcher.Cluster, role string) launcher.Process {
	for _, p := range c.Processes() {
		if p.Role == role {
			return p
		}
	}
	return launcher.Process{}
}

// logHas reports whether a process has logged a text.
func logHas(p launcher.Process, text string) error {
	raw, err := os.ReadFile(p.Log)
	if err == nil && !bytes.Contains(raw, []byte(text)) {
		err = fmt.Errorf("%s has not logged %q", p.Name, text)
	}
	return err
}

const (
	// memoryLimit is the memory limit of TestMemory's region, and bigEntity the size of one of
	// its entities. The working set is ten times the limit.
	memoryLimit = 320 << 20
	bigEntity   = 64 << 10
	workingSet  = 10 * memoryLimit / bigEntity
	// memoryClients send one command after the other.
	memoryClients = 32
)

// TestMemory gives commands to a working set of ten times the memory that the region may use.
// The region lives on, and loses no command. It runs on request, for as long as E2E_MEMORY
// says: make e2e-memory is 30 s, make e2e-memory FOR=5m five minutes. The limit is a control
// group's, which would end the region. Where none can be made, the limit is the Go
// runtime's, and the resident memory is compared with it. In a control group that says little:
// pages of files are resident too, and the group takes them away when it needs the room.
func TestMemory(t *testing.T) {
	duration, err := time.ParseDuration(os.Getenv("E2E_MEMORY"))
	if err != nil {
		t.Skip("runs on request: make e2e-memory")
	}
	o := launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1,
		RegionBinary: filepath.Join(testbin.Build(t, "e2e/cluster/cmd/big-region"), "big-region")}
	limited := newGroup(t, memoryLimit)
	if limited != nil {
		o.RegionBinary = limited.script(t, o.RegionBinary)
	} else {
		o.Env = []string{fmt.Sprint("GOMEMLIMIT=", memoryLimit/10*9)}
	}
	c := start(t, o)
	region := processOf(c, launcher.Region)
	if limited != nil && !limited.holds(region.PID) {
		t.Fatalf("the region is not in the control group %s", limited.dir)
	}
	load := &bigLoad{t: t, url: c.Gateways()[0] + "/v1/Big/", acked: make([]int64, workingSet)}
	load.run(duration)
	load.check()
	if now := processOf(c, launcher.Region); now.PID != region.PID {
		t.Errorf("the region was ended: %s", now.Reason)
	}
	most := resident(t, region.PID)
	passivated, err := scrape(region, "roost_entity_passivations_total")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d commands to %d entities in %s; at most %d MiB resident, control group %t; %.0f passivations; %d repeats", load.commands.Load(), workingSet, duration, most>>20, limited != nil, passivated, load.repeats.Load())
	if limited == nil && most > memoryLimit {
		t.Errorf("%d bytes were resident, the limit is %d", most, memoryLimit)
	}
	if passivated == 0 {
		t.Error("nothing was passivated")
	}
}

// bigLoad sends commands and knows which were acknowledged.
type bigLoad struct {
	t                 *testing.T
	url               string
	acked             []int64 // by entity; each is used by one client
	commands, repeats atomic.Int64
}

// run goes through the working set again and again: each client has entities of its own, and
// after each of them comes back to an earlier one.
func (l *bigLoad) run(duration time.Duration) {
	ctx, cancel := context.WithTimeout(l.t.Context(), duration)
	defer cancel()
	var clients sync.WaitGroup
	for first := range memoryClients {
		clients.Go(func() {
			for ctx.Err() == nil {
				for i := 0; first+i*memoryClients < workingSet && ctx.Err() == nil; i++ {
					if !l.add(first+i*memoryClients) || !l.add(first+rand.IntN(i+1)*memoryClients) {
						return
					}
				}
			}
		})
	}
	clients.Wait()
}

// add gives an entity a command. The answer must count it, and nothing else.
func (l *bigLoad) add(e int) bool {
	n, ok := l.call(e, "Add", fmt.Sprintf("%d-%d", e, l.acked[e]))
	if !ok {
		return false
	}
	if l.acked[e]++; n != l.acked[e] {
		l.t.Errorf("entity %d counts %d after %d commands", e, n, l.acked[e])
		return false
	}
	l.commands.Add(1)
	return true
}

// check reads what some entities have counted.
func (l *bigLoad) check() {
	for e := 0; e < workingSet; e += workingSet / 500 {
		if n, ok := l.call(e, "Get", ""); ok && n != l.acked[e] {
			l.t.Errorf("entity %d has counted %d, %d commands were acknowledged", e, n, l.acked[e])
		}
	}
}

// call sends a command until it is answered: with the same key, so that it takes effect once.
func (l *bigLoad) call(e int, command, key string) (n int64, ok bool) {
	for range 100 {
		req, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, fmt.Sprint(l.url, e, "/", command), strings.NewReader("{}"))
		if err != nil {
			l.t.Error(err)
			return 0, false
		}
		if req.Header.Set("Roost-Timeout", "20s"); key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			var reply struct{ N int64 }
			err = json.NewDecoder(res.Body).Decode(&reply)
			if _ = res.Body.Close(); err == nil && res.StatusCode == http.StatusOK {
				return reply.N, true
			}
		}
		l.repeats.Add(1)
	}
	l.t.Errorf("%s of entity %d was never answered", command, e)
	return 0, false
}

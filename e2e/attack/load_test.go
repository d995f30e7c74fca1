package attack

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// memoryLimit is GOMEMLIMIT of all processes, as the memory limit of a container sets it.
	memoryLimit = 224 << 20
	// mostResident is the memory limit of a process at its peak, in all attacks: the limit, and what the Go
	// runtime does not count.
	mostResident = 256 << 20
)

// metric returns a metric of a process; of several with the same name, the sum.
func (r *rig) metric(t *testing.T, process, name string) (sum float64) {
	t.Helper()
	a := do(http.DefaultClient, http.MethodGet, "http://"+r.processes[process].Management+"/metrics", "", "Authorization", "Bearer "+r.reader)
	found := false
	for line := range strings.Lines(a.body) {
		if rest, is := strings.CutPrefix(line, name); is && rest[0] == ' ' || is && rest[0] == '{' {
			value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
			must(t, err)
			sum, found = sum+value, true
		}
	}
	if !found {
		t.Fatalf("%s has no metric %s: %d %v", process, name, a.status, a.err)
	}
	return sum
}

// allocated runs an attack, and returns how many bytes of heap a process has allocated meanwhile for all that it did.
// This is stricter than how much its memory has grown, and says more: memory that is taken and given back counts, and
// garbage that is not collected yet does not count twice.
func (r *rig) allocated(t *testing.T, process string, attack func()) int64 {
	t.Helper()
	before := r.metric(t, process, "go_memstats_alloc_bytes_total")
	attack()
	return int64(r.metric(t, process, "go_memstats_alloc_bytes_total") - before)
}

// peaks fails if a process had more in memory than it may have.
func (r *rig) peaks(t *testing.T) {
	t.Helper()
	for name, p := range r.processes { // order-free: each for itself
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
		must(t, err)
		_, rest, found := strings.Cut(string(text), "VmHWM:")
		if !found {
			t.Fatalf("no VmHWM of %s", name)
		}
		kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		must(t, err)
		if kib<<10 > mostResident {
			t.Errorf("%s had %d MiB in memory, at most %d are allowed", name, kib>>10, mostResident>>20)
		}
	}
}

// files returns how many files and connections a process has open.
func (r *rig) files(t *testing.T, process string) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.processes[process].PID))
	must(t, err)
	return len(list)
}

// filesReturn waits until a process has about as many files open as before.
func (r *rig) filesReturn(t *testing.T, process string, before int) {
	t.Helper()
	eventually(t, "the connections are closed", func() error {
		if now := r.files(t, process); now > before+20 {
			return fmt.Errorf("%s has %d files open, before there were %d", process, now, before)
		}
		return nil
	})
}

// legitimate sends commands as a client that behaves does. Each must be answered. It returns how long most of them and
// the slowest hundredth took: that depends on the machine, so it is only printed.
func (r *rig) legitimate(t *testing.T, commands int) (half, p99 time.Duration) {
	t.Helper()
	const workers = 4
	took := make([][]time.Duration, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for n := range commands / workers {
				began := time.Now()
				if a := r.command(1, fmt.Sprintf("/v1/Counter/legitimate-%d-%d/Add", w, n%16), `{"delta":1}`, ""); a.status != 200 {
					t.Errorf("a client that behaves is answered %d %s %v", a.status, a.body, a.err)
				}
				took[w] = append(took[w], time.Since(began))
			}
		})
	}
	all.Wait()
	sorted := slices.Concat(took...)
	slices.Sort(sorted)
	return sorted[len(sorted)/2], sorted[len(sorted)*99/100]
}

// compare describes latencies under an attack and before it.
func compare(quiet, attacked time.Duration) string {
	return fmt.Sprintf("p99 %s, before %s: %.1f times", attacked.Round(100*time.Microsecond), quiet.Round(100*time.Microsecond), float64(attacked)/float64(quiet))
}

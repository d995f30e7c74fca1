package bench

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
)

const idling = "idle processes"

// What an idle process may cost: in percent of one processor, and in MiB.
const (
	idleShare  = 0.5
	idleMemory = 40
)

// idleProcesses measures what processes cost that have nothing to do, after they had much to do: their
// processor time, and the memory that they have not given back. The worst process of each role counts.
func (r *run) idleProcesses() error {
	f, err := r.startFaultRun("idle-processes", func(o *cluster.Options) {
		if r.Profiles != "" {
			profiled := []string{"--management.pprof=true"}
			o.Args = map[string][]string{cluster.Coordinator: profiled, cluster.Region: profiled, cluster.Gateway: profiled}
		}
	})
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.ready(); err != nil {
		return err
	}
	if err := f.warm(); err != nil {
		return err
	}
	time.Sleep(r.Sizes.Rest)
	processes := f.cluster.Processes()
	before := make([]time.Duration, len(processes))
	began := time.Now()
	for i, p := range processes {
		before[i] = measure.UsageOf(p.PID)
	}
	var profiling sync.WaitGroup
	if r.Profiles != "" {
		profiling.Go(func() { r.profileIdle(processes) })
	}
	time.Sleep(r.Sizes.Rest)
	share, memory, own, count := map[string]float64{}, map[string]float64{}, map[string]float64{}, map[string]int{}
	for i, p := range processes {
		count[p.Role]++
		used := measure.UsageOf(p.PID) - before[i]
		share[p.Role] = max(share[p.Role], 100*used.Seconds()/time.Since(began).Seconds())
		resident := measure.Resident(p.PID)
		memory[p.Role] = max(memory[p.Role], float64(resident)/(1<<20))
		own[p.Role] = max(own[p.Role], float64(resident-measure.ResidentFiles(p.PID))/(1<<20))
	}
	profiling.Wait()
	for _, role := range []string{cluster.Region, cluster.Coordinator, cluster.Gateway} {
		what := fmt.Sprintf("%s, once, worst of %d: ", role, count[role])
		r.add(report.Row{Section: idling, Measure: what + "processor time", Unit: "% of one processor", Value: share[role], Target: report.Target{AtMost: idleShare}})
		r.add(report.Row{Section: idling, Measure: what + "resident memory", Unit: "MiB", Value: memory[role], Target: report.Target{AtMost: idleMemory}})
		r.add(report.Row{Section: idling, Measure: what + "of that, without pages of files", Unit: "MiB", Value: own[role]})
	}
	return nil
}

// profileIdle writes profiles of processes that do nothing.
func (r *run) profileIdle(processes []cluster.Process) {
	seconds := max(1, int(r.Sizes.Rest.Seconds())-1)
	var all sync.WaitGroup
	for _, p := range processes {
		for kind, path := range map[string]string{"cpu": fmt.Sprint("profile?seconds=", seconds), "heap": "heap"} { // order-free: all at once
			all.Go(func() {
				file := filepath.Join(r.Profiles, fmt.Sprintf("idle-processes.%s.%s.pprof", p.Name, kind))
				if err := fetch(fmt.Sprintf("http://%s/debug/pprof/%s", p.Management, path), file); err != nil {
					fmt.Fprintf(r.Progress, "no %s: %v\n", file, err)
				}
			})
		}
	}
	all.Wait()
}

package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"sync"

	"github.com/roost-cluster/roost/e2e/bench/measure"
)

// profiled profiles every process that works for a subject while run runs. The files are
// named after the subject and the process.
func (r *run) profiled(s *measure.Subject, run func()) {
	own := http.NewServeMux()
	own.HandleFunc("/debug/pprof/", pprof.Index)
	own.HandleFunc("/debug/pprof/profile", pprof.Profile)
	here := httptest.NewServer(own)
	defer here.Close()
	from := map[string]string{"client": here.URL}
	if r.cluster != nil {
		for _, p := range r.cluster.cluster.Processes() {
			for _, pid := range s.Processes {
				if p.PID == pid {
					from[p.Role] = "http://" + p.Management
				}
			}
		}
	}
	seconds := max(1, int(r.Length.Seconds()))
	var all sync.WaitGroup
	for process, url := range from { // order-free: all at once
		for kind, path := range map[string]string{"cpu": "profile", "allocs": "allocs"} {
			all.Go(func() {
				file := filepath.Join(r.Profiles, fmt.Sprintf("%s.%s.%s.pprof", s.Name, process, kind))
				if err := fetch(fmt.Sprintf("%s/debug/pprof/%s?seconds=%d", url, path, seconds), file); err != nil {
					fmt.Fprintf(r.Progress, "no %s: %v\n", file, err)
				}
			})
		}
	}
	run()
	all.Wait()
}

func fetch(url, file string) error {
	res, err := http.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", res.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, res.Body); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/e2e/cluster/load"
	libjournal "github.com/roost-cluster/roost/libs/journal"
)

const (
	// oldRegion continues after the restore with what it knew before.
	oldRegion = "region-1"
	// noticedWithin bounds the time in which an old region may show lost states by stale reads: once a second it
	// looks whether its journal is still there.
	noticedWithin = 2 * time.Second
)

// TestRestores backs a journal up under load, destroys it, and restores it. A region that was paused
// before that continues afterwards, as do the gateways with their old tables. The histories of the two
// journals are checked for themselves: nothing old has an effect on the new one.
func TestRestores(t *testing.T) {
	if os.Getenv("E2E") == "" {
		t.Skip("takes minutes: make e2e")
	}
	for _, rehearsal := range []struct {
		name    string
		on      []string
		prepare func(*run, *launcher.Options) // nil: nothing
	}{
		{"restore", both, nil},
		{"restore-databases", server, twoDatabases},
	} {
		t.Run(rehearsal.name, func(t *testing.T) {
			for _, store := range rehearsal.on {
				t.Run(store, func(t *testing.T) {
					if !fullSet() {
						t.Skip("not in the short set")
					}
					ran.Store(true)
					(&run{T: t, store: store, rate: 100, allowed: map[string]string{}, retired: map[string]bool{}}).rehearse(rehearsal.prepare)
				})
			}
		})
	}
}

func (r *run) rehearse(prepare func(*run, *launcher.Options)) {
	r.dir = r.TempDir()
	o := launcher.Options{
		Coordinators: 2, Regions: 3, Gateways: 2, Dir: r.dir, Args: map[string][]string{},
		RegionBinary: filepath.Join(binaries(r.T), "list-region"), Changed: r.changed, StartTimeout: waitLimit,
	}
	r.setUpJournal(&o)
	if prepare != nil {
		prepare(r, &o)
	}
	r.cluster = start(r.T, o)
	r.load = load.New(r.cluster.Gateways(), r.rate)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		r.load.Run(r.Context(), 0, over, 1)
	}()
	r.progress(200)
	file := filepath.Join(r.dir, "lists.backup")
	began := r.load.Now()
	r.roost("journal", "backup", file)
	backedUp := r.load.Now()
	r.progress(200) // what is lost

	r.stopAllButOld()
	lost := r.load.Now()
	whole := values(r.stored())
	r.destroy()
	restored := r.restore(file)
	kept := values(r.stored())
	r.retired[oldRegion] = true // it is started at the end
	r.up()
	_, err := r.cluster.AddRegion(r.Context()) // in its place: the coordinator waits for three regions
	r.must(err)
	r.progress(100)
	_, term, err := r.cluster.Active(r.Context())
	r.must(err)
	if term < restored.NextTerm {
		r.Errorf("the active coordinator has term %d, want %d or more", term, restored.NextTerm)
	}
	r.allowDeath("", oldRegion)
	r.must(r.cluster.Signal(oldRegion, syscall.SIGCONT))
	settled := r.load.Now() + noticedWithin
	r.goneOld()
	delete(r.retired, oldRegion)
	r.up()
	r.progress(200)
	close(over)
	<-ended
	r.judgeRestore(began, backedUp, lost, settled, whole, kept)
}

// progress waits until so many more operations were answered.
func (r *run) progress(n int64) {
	r.Helper()
	for until, to := time.Now().Add(2*waitLimit), r.load.Acked()+n; r.load.Acked() < to; r.wait(10 * time.Millisecond) {
		if time.Now().After(until) {
			r.Fatalf("%d of %d operations were answered", r.load.Acked()+n-to, n)
		}
	}
}

// roost runs the command on the journal, and returns what it prints.
func (r *run) roost(args ...string) []byte {
	r.Helper()
	out, err := r.tryRoost(args...)
	if err != nil {
		r.Fatalf("roost %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (r *run) tryRoost(args ...string) ([]byte, error) {
	cmd := exec.CommandContext(r.Context(), filepath.Join(binaries(r.T), "roost"), append(args, "-o", "json")...)
	cmd.Env = append(os.Environ(), "ROOST_JOURNAL_URL="+r.journalURL, "ROOST_JOURNAL_DATABASES="+r.databases)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		out = append(out, exit.Stderr...)
	}
	return out, err
}

// stopAllButOld kills coordinators and regions, and pauses one region.
func (r *run) stopAllButOld() {
	r.must(r.cluster.Signal(oldRegion, syscall.SIGSTOP))
	for _, p := range r.cluster.Processes() {
		if p.Role != launcher.Gateway && p.Name != oldRegion {
			r.must(r.cluster.Kill(p.Name))
		}
	}
}

// destroy loses the journal: the file is gone, and of the database a part of the records.
func (r *run) destroy() {
	if r.store == onPostgres {
		_, err := r.db.ExecContext(r.Context(), "DELETE FROM roost.record WHERE seq > 1; UPDATE roost.entity SET last = 1")
		r.must(err)
		return
	}
	r.must(r.db.Close())
	files, err := filepath.Glob(filepath.Join(r.dir, "journal.db*"))
	r.must(err)
	for _, f := range files {
		r.must(os.Remove(f))
	}
}

// restore restores the journal. If the region still has it open, that has to be said.
func (r *run) restore(file string) (restored struct {
	NextTerm uint32 `json:"next_term"`
}) {
	r.Helper()
	r.roost("journal", "backup", "check", file)
	args := []string{"journal", "restore", file}
	if r.store == onPostgres {
		for _, flag := range []string{"--in-use", "--replace"} {
			if out, err := r.tryRoost(args...); err == nil || !strings.Contains(string(out), flag) {
				r.Errorf("roost %s: %v, want an error that says %s\n%s", strings.Join(args, " "), err, flag, out)
			}
			args = append(args, flag)
		}
	}
	r.must(json.Unmarshal(r.roost(args...), &restored))
	if restored.NextTerm <= libjournal.RestoreTerms {
		r.Errorf("the terms go on at %d", restored.NextTerm)
	}
	if r.store == onSQLite {
		r.reopen(filepath.Join(r.dir, "journal.db"))
	}
	return restored
}

// goneOld waits until the old region has ended on its own.
func (r *run) goneOld() {
	r.Helper()
	for until := time.Now().Add(2 * waitLimit); ; r.wait(20 * time.Millisecond) {
		for _, p := range r.cluster.Processes() {
			if p.Name != oldRegion || p.PID != 0 {
				continue
			}
			log, err := os.ReadFile(p.Log)
			r.must(err)
			if !strings.Contains(string(log), libjournal.ErrReplaced.Error()) && !strings.Contains(string(log), declaredDown) {
				r.Errorf("the old region has ended for another reason:\n%s", strings.Join(p.LastLines, "\n"))
			}
			return
		}
		if time.Now().After(until) {
			r.Fatal("the old region continues with the old journal")
		}
	}
}

func (r *run) judgeRestore(began, backedUp, lost, settled time.Duration, whole, kept map[string][]int64) {
	ctx, cancel := context.WithTimeout(r.Context(), waitLimit)
	defer cancel()
	final := map[string][]int64{}
	for i := range load.Lists {
		list, err := r.load.Final(ctx, load.ListName(i))
		r.must(err)
		final[load.ListName(i)] = list
		if whole[load.ListName(i)] == nil {
			whole[load.ListName(i)] = []int64{}
		}
	}
	ops, stored := r.load.Ops(), r.stored()
	before, after := history.Restored(ops, lost, settled, kept)
	for what, err := range map[string]error{
		"the backup":                      history.CheckKept(before, began, backedUp, kept, whole),
		"the history before the restore":  history.Check(before, whole, 2*waitLimit),
		"the history after the restore":   history.Check(after, final, 2*waitLimit),
		"the journal after the restore":   history.CheckStored(after, stored),
		"the lists, read from the region": history.CheckRead(final, stored),
	} {
		if err != nil {
			r.Errorf("%s: %v", what, err)
		}
	}
	for _, p := range r.load.Problems {
		r.Errorf("an answer that no fault explains: %s", p)
	}
	r.judgeDeaths()
	was, is := count(whole), count(kept)
	r.Logf("restore                  %-10s %5d operations, %d of %d values kept, longest gap %.1f s", r.store, len(ops), is, was, history.Longest(ops, 0, r.load.End).Seconds())
	if is == 0 || is == was {
		r.Errorf("%d of %d values are kept: that proves nothing", is, was)
	}
}

// values returns the values of lists from their records.
func values(stored []history.Stored) map[string][]int64 {
	all := map[string][]int64{}
	for _, s := range stored {
		all[s.List] = append(all[s.List], s.Values...)
	}
	return all
}

func count(lists map[string][]int64) (n int) {
	for _, l := range lists {
		n += len(l)
	}
	return n
}

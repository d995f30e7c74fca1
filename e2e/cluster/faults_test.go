package cluster

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the database/sql driver "sqlite"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
)

// sameAddress kills processes and starts them again at once: sooner than
// anybody misses them, at the same addresses.
func sameAddress(r *run) {
	r.wait(2 * time.Second)
	for _, name := range []string{"region-1", "coordinator-1", "region-2", "gateway-2", "coordinator-2"} {
		r.kill(name)
		r.up(name)
		r.wait(500 * time.Millisecond)
	}
}

// process is the launcher's account of a process.
func (r *run) process(name string) launcher.Process {
	r.Helper()
	all := r.cluster.Processes()
	i := slices.IndexFunc(all, func(p launcher.Process) bool { return p.Name == name })
	if i < 0 {
		r.Fatalf("no process %s", name)
	}
	return all[i]
}

// sameIdentity starts a region a second time, with the same name and data, at
// other ports and so with another uid, and kills the double later.
func sameIdentity(r *run) {
	r.wait(2 * time.Second)
	first := r.process("region-2")
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", first.PID))
	if err != nil {
		r.Skipf("needs /proc: %v", err)
	}
	var args []string
	for _, a := range strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00") {
		switch name, _, _ := strings.Cut(a, "="); name {
		case "--service.listen", "--management.listen":
			args = append(args, name+"=127.0.0.1:0")
		case "--node.address_file":
			args = append(args, name+"="+filepath.Join(r.dir, "double.json"))
		default:
			args = append(args, a)
		}
	}
	out, err := os.Create(filepath.Join(r.dir, "logs", "double.log"))
	r.must(err)
	defer func() { _ = out.Close() }()
	double := exec.Command(args[0], args[1:]...)
	double.Stdout, double.Stderr = out, out
	r.must(double.Start())
	kill := sync.OnceFunc(func() {
		_ = double.Process.Kill() // it may have ended by itself
		_ = double.Wait()
	})
	defer kill()
	r.wait(5 * time.Second)
	m, err := launcher.NewAdmin(r.cluster.Admin()...).Members(r.Context())
	r.must(err)
	bearers := 0
	for _, member := range m.Members {
		if member.Name == "region-2" {
			bearers++
		}
	}
	kill()
	r.figure("%d members of one name", bearers)
}

// terminate ends one process of each role after the other by SIGTERM.
func terminate(r *run) {
	r.wait(2 * time.Second)
	r.stop("region-1")
	active, _ := r.active()
	r.stop(active)
	r.stop("gateway-1")
	r.stop("region-3")
}

// nothingUnknown: what was planned leaves no doubt.
func nothingUnknown(r *run) {
	if r.unknown > 0 {
		r.Errorf("%d operations of unknown outcome", r.unknown)
	}
}

// smallDisk puts the journal on a small file system in memory.
func smallDisk(r *run, o *launcher.Options) {
	disk := filepath.Join(r.dir, "disk")
	r.must(os.Mkdir(disk, 0o755))
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
		r.Skipf("cannot mount a small file system: %v", err)
	}
	r.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			r.Error(err)
		}
	})
	journal := "--journal.url=" + (&url.URL{Scheme: "sqlite", Path: filepath.Join(disk, "journal.db")}).String()
	o.Args = map[string][]string{launcher.Region: {journal}, launcher.Coordinator: {journal}}
}

// diskFull fills the file system of the journal for a while. Commands are
// refused then, reads are not; when there is room again, all goes on.
func diskFull(r *run) {
	r.wait(2 * time.Second)
	balloon := filepath.Join(r.dir, "disk", "balloon")
	f, err := os.Create(balloon)
	r.must(err)
	defer func() { _ = f.Close() }()
	air := make([]byte, 1<<16)
	for err == nil {
		_, err = f.Write(air)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		r.Fatal(err)
	}
	for len(air) > 1 { // the last page too
		air = air[:len(air)/2]
		for err = nil; err == nil; {
			_, err = f.Write(air)
		}
	}
	r.wait(time.Second)
	reads, writes := r.answered(history.Get), r.answered(history.Add)
	r.wait(2 * time.Second)
	reads, writes = r.answered(history.Get)-reads, r.answered(history.Add)-writes
	r.must(os.Remove(balloon))
	r.must(f.Truncate(0))
	r.figure("without room %d reads and %d writes answered", reads, writes)
	if reads == 0 {
		r.Error("without room for writes nothing is read either")
	}
	if writes > 0 {
		r.Error("void: there was room for writes")
	}
}

// answered counts the operations answered OK so far.
func (r *run) answered(kind history.Kind) (n int) {
	r.load.mu.Lock()
	defer r.load.mu.Unlock()
	for i := range r.load.ops {
		if o := &r.load.ops[i]; o.Kind == kind && o.Outcome == history.OK {
			n++
		}
	}
	return n
}

// failingFsync lets every fsync of a region fail. It cannot know any more what
// is on the disk, so it has to end; nobody else is harmed.
func failingFsync(r *run) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		r.Skipf("needs strace: %v", err)
	}
	r.wait(2 * time.Second)
	r.maybeDie("region-2")
	p := r.process("region-2")
	// strace ends with what it traces.
	cmd := exec.Command(strace, "-f", "-qq", "-o", filepath.Join(r.dir, "strace"), "-p", strconv.Itoa(p.PID),
		"-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO")
	var told strings.Builder
	cmd.Stderr = &told
	r.must(cmd.Start())
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill(); <-done }()
	began := time.Now()
	r.wait(time.Second)
	select {
	case <-done:
		if r.process("region-2").PID == p.PID {
			r.Skipf("strace cannot trace here: %s", told.String())
		}
	default:
	}
	eventually(r.T, 10*time.Second, func() error {
		if p := r.process("region-2"); p.PID != 0 {
			return errors.New("region-2 goes on although no fsync of it succeeds")
		}
		return nil
	})
	raw, err := os.ReadFile(filepath.Join(r.dir, "strace"))
	r.must(err)
	r.figure("%d failed fsyncs, region ended within %.1f s", strings.Count(string(raw), "INJECTED"), time.Since(began).Seconds())
	r.wait(2 * time.Second)
	r.up()
}

// corruptedRecord flips a bit in the last record of one list while nothing
// runs. That list refuses everything with an explicit error, and no other does;
// when the bit is flipped back, the list goes on where it was.
func corruptedRecord(r *run) {
	victim := listName(3)
	r.wait(3 * time.Second)
	r.down()
	flip(r, victim)
	r.up()
	outcome, body := r.ask(victim)
	if outcome != history.Rejected || !strings.Contains(body, "data_loss") {
		r.Errorf("%s is damaged, and its answer is %v: %s", victim, outcome, body)
	}
	for i := range listCount {
		if outcome, body := r.ask(listName(i)); listName(i) != victim && outcome != history.OK {
			r.Errorf("only %s is damaged, but the answer of %s is %v: %s", victim, listName(i), outcome, body)
		}
	}
	r.down()
	flip(r, victim)
	r.up()
	r.figure("only the damaged list refused")
}

// down kills everything.
func (r *run) down() {
	r.Helper()
	var names []string
	for _, p := range r.cluster.Processes() {
		names = append(names, p.Name)
	}
	r.kill(names...)
}

// ask reads a list once; only what says that it could not be asked is repeated.
func (r *run) ask(list string) (outcome history.Outcome, body string) {
	r.Helper()
	eventually(r.T, 20*time.Second, func() error {
		a := r.load.post(r.Context(), 0, "/v1/List/"+list+"/Get", "", struct{}{})
		outcome, body = a.outcome, string(a.body)
		if outcome == history.Unknown || outcome == history.Rejected && !strings.Contains(body, "data_loss") {
			return fmt.Errorf("%s: %v %s", list, outcome, body)
		}
		return nil
	})
	return outcome, body
}

// flip inverts one bit of the last record of a list.
func flip(r *run, list string) {
	r.Helper()
	db, err := sql.Open("sqlite", filepath.Join(r.dir, "journal.db"))
	r.must(err)
	defer func() { _ = db.Close() }()
	var id, seq int64
	var body []byte
	r.must(db.QueryRow(`SELECT r.entity, r.seq, r.body FROM record r JOIN entity e ON e.id = r.entity
		WHERE e.type = 'List' AND e.name = ? ORDER BY r.seq DESC LIMIT 1`, list).Scan(&id, &seq, &body))
	body[len(body)/2] ^= 0x10
	_, err = db.Exec("UPDATE record SET body = ? WHERE entity = ? AND seq = ?", body, id, seq)
	r.must(err)
}

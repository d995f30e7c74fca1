package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/e2e/cluster/load"
)

// sameAddress kills processes and starts them again at the same addresses, before anybody
// suspects them.
func sameAddress(r *run) {
	r.wait(2 * time.Second)
	for _, name := range []string{"region-1", "coordinator-1", "region-2", "gateway-2", "coordinator-2"} {
		r.kill(name)
		r.up()
		r.wait(500 * time.Millisecond)
	}
}

// double returns a command that starts a process like one of the cluster, on other ports. Its log is
// logs/<label>.log.
func (r *run) double(of, label string) *exec.Cmd {
	r.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.process(of).PID))
	if err != nil {
		r.Skipf("needs /proc: %v", err)
	}
	var args []string
	for _, a := range strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00") {
		switch name, _, _ := strings.Cut(a, "="); name {
		case "--service.listen", "--management.listen":
			args = append(args, name+"=127.0.0.1:0")
		case "--node.address_file":
			args = append(args, name+"="+filepath.Join(r.dir, label+".json"))
		default:
			args = append(args, a)
		}
	}
	out, err := os.Create(filepath.Join(r.dir, "logs", label+".log"))
	r.must(err)
	r.Cleanup(func() { _ = out.Close() })
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// sameIdentity starts a region a second time, with the same name and data but other ports
// and so another uid, and kills the double later.
func sameIdentity(r *run) {
	r.wait(2 * time.Second)
	double := r.double("region-2", "double")
	r.must(double.Start())
	kill := sync.OnceFunc(func() {
		_ = double.Process.Kill() // it may have ended on its own
		_ = double.Wait()
	})
	defer kill()
	r.wait(5 * time.Second)
	m, err := r.admin().Members(r.Context())
	r.must(err)
	namesakes := 0
	for _, member := range m.Members {
		if member.Name == "region-2" {
			namesakes++
		}
	}
	for _, name := range []string{"coordinator-1", "region-1"} { // any two of the others
		log, err := os.ReadFile(r.process(name).Log)
		r.must(err)
		if namesakes > 1 && !strings.Contains(string(log), "several members share one node name") {
			r.Errorf("%s does not warn of %d members of one name", name, namesakes)
		}
	}
	kill()
	r.figure("%d members of one name", namesakes)
}

// terminate ends one process of each role after the other by SIGTERM. The term
// rises once, with the active coordinator.
func terminate(r *run) {
	r.wait(2 * time.Second)
	_, before := r.active()
	r.stop("region-1")
	active, _ := r.active()
	r.stop(active)
	r.stop("gateway-1")
	r.stop("region-3")
	if _, after := r.active(); after > before+1 {
		r.markVoid("term %d follows %d: a coordinator could not hold the lease", after, before)
	}
}

// nothingUnknown: graceful stops leave no operation in doubt, unless the run is void.
func nothingUnknown(r *run) {
	if r.unknown > 0 && len(r.void) == 0 {
		r.Errorf("%d operations of unknown outcome; attempts failed for %v", r.unknown, r.load.Reasons)
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
	r.setUpJournalAt(o, filepath.Join(disk, "journal.db"))
}

// diskFull fills the file system of the journal for a while. Then commands are refused, but
// reads are not, and commands succeed again once there is space.
func diskFull(r *run) {
	r.wait(2 * time.Second)
	filler := filepath.Join(r.dir, "disk", "filler")
	f, err := os.Create(filler)
	r.must(err)
	defer func() { _ = f.Close() }()
	block := make([]byte, 1<<16)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		r.Fatal(err)
	}
	for len(block) > 1 { // the last page too
		block = block[:len(block)/2]
		for err = nil; err == nil; {
			_, err = f.Write(block)
		}
	}
	r.wait(time.Second)
	reads, writes := r.answered(history.Get), r.answered(history.Add)
	r.wait(2 * time.Second)
	reads, writes = r.answered(history.Get)-reads, r.answered(history.Add)-writes
	r.must(os.Remove(filler))
	r.must(f.Truncate(0))
	r.figure("on the full disk %d reads and %d writes answered", reads, writes)
	if reads == 0 {
		r.Error("on the full disk reads fail too")
	}
	if writes > 0 {
		r.Error("void: the disk was not full")
	}
}

// answered counts the operations executed so far.
func (r *run) answered(kind history.Kind) (n int) {
	for _, o := range r.load.Ops() {
		if o.Kind == kind && o.Outcome == history.Executed {
			n++
		}
	}
	return n
}

// brokenDisk is the message of a process that ends because it no longer knows what is on
// its disk.
const brokenDisk = "disk I/O error"

// failFsync makes every fsync of a process fail, until it ends or heal is called. heal
// returns how many have failed.
func failFsync(r *run, name string) (heal func() (failed int)) {
	r.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		r.Skipf("needs strace: %v", err)
	}
	r.allowDeath(brokenDisk, name)
	p := r.process(name)
	trace := filepath.Join(r.dir, "strace")
	// strace ends with what it traces.
	cmd := exec.Command(strace, "-f", "-qq", "-o", trace, "-p", strconv.Itoa(p.PID),
		"-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	r.must(cmd.Start())
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	heal = sync.OnceValue(func() int {
		_ = cmd.Process.Signal(syscall.SIGINT) // it detaches from the process
		<-done
		raw, err := os.ReadFile(trace)
		r.must(err)
		return strings.Count(string(raw), "INJECTED")
	})
	r.Cleanup(func() { heal() })
	r.wait(time.Second)
	select {
	case <-done:
		if r.process(name).PID == p.PID {
			r.Skipf("strace cannot trace here: %s", stderr.String())
		}
	default:
	}
	return heal
}

// failingFsync makes every fsync of a region fail. The region no longer knows what is on the
// disk, so it has to end. Others are not affected.
func failingFsync(r *run) {
	r.wait(2 * time.Second)
	began := time.Now()
	heal := failFsync(r, "region-2")
	eventually(r.T, waitLimit, func() error {
		if p := r.process("region-2"); p.PID != 0 {
			return errors.New("region-2 continues although no fsync of it succeeds")
		}
		return nil
	})
	r.figure("%d failed fsyncs, region ended within %.1f s", heal(), time.Since(began).Seconds())
	r.wait(2 * time.Second)
	r.up()
}

// failingFsyncOfCoordinator makes every fsync of the active coordinator fail, also for its
// lease. Another coordinator takes over, and handles the death of a region.
func failingFsyncOfCoordinator(r *run) {
	r.wait(2 * time.Second)
	old, before := r.active()
	heal := failFsync(r, old)
	r.kill("region-3")
	began := time.Now()
	now, term := r.successor(before)
	if now == old {
		r.Errorf("%s is active again in term %d, although no fsync of it succeeds", old, term)
	}
	r.wait(3 * time.Second)
	state := "ended"
	if !r.ended(old) {
		state = "stands by"
	}
	r.figure("%d failed fsyncs, term %d after %d within %.1f s, the old coordinator %s", heal(), term, before, time.Since(began).Seconds(), state)
	r.up()
}

// corruptedRecord flips a bit in the last record of one list while nothing runs. That list
// refuses everything with an explicit error, and no other list does. When the bit is
// flipped back, the list continues where it was.
func corruptedRecord(r *run) {
	victim := load.ListName(3)
	r.wait(3 * time.Second)
	r.down()
	flip(r, victim)
	r.up()
	outcome, body := r.ask(victim)
	if outcome != history.NotApplied || !strings.Contains(body, "data_loss") {
		r.Errorf("%s is damaged, and its answer is %v: %s", victim, outcome, body)
	}
	for i := range load.Lists {
		if outcome, body := r.ask(load.ListName(i)); load.ListName(i) != victim && outcome != history.Executed {
			r.Errorf("only %s is damaged, but the answer of %s is %v: %s", victim, load.ListName(i), outcome, body)
		}
	}
	r.down()
	flip(r, victim)
	r.up()
	r.figure("only the damaged list refused")
}

// down kills all processes.
func (r *run) down() {
	r.Helper()
	r.kill(r.names()...)
}

// ask reads a list, and repeats that only while the list cannot be reached.
func (r *run) ask(list string) (outcome history.Outcome, body string) {
	r.Helper()
	eventually(r.T, waitLimit, func() error {
		a := r.load.Post(r.Context(), 0, "/v1/List/"+list+"/Get", "", struct{}{})
		outcome, body = a.Outcome, string(a.Body)
		if outcome == history.Unknown || outcome == history.NotApplied && !strings.Contains(body, "data_loss") {
			return fmt.Errorf("%s: %v %s", list, outcome, body)
		}
		return nil
	})
	return outcome, body
}

// flip inverts one bit of the last record of a list.
func flip(r *run, list string) {
	r.Helper()
	var id, seq int64
	var body []byte
	query, update := `SELECT r.entity, r.seq, r.body FROM record r JOIN entity e ON e.id = r.entity
		WHERE e.type = 'List' AND e.name = ? ORDER BY r.seq DESC LIMIT 1`, "UPDATE record SET body = ? WHERE entity = ? AND seq = ?"
	if r.store == onPostgres {
		query = strings.Replace(query, "?", "$1", 1)
		update = "UPDATE record SET body = $1 WHERE entity = $2 AND seq = $3"
	}
	r.must(r.db.QueryRow(query, list).Scan(&id, &seq, &body))
	body[len(body)/2] ^= 0x10
	_, err := r.db.Exec(update, body, id, seq)
	r.must(err)
}

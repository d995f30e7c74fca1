package server

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/server/blackbox"
	"github.com/roost-cluster/roost/services/region/suspects"
)

// noter notes the turns of a process, and makes the turns of suspects run one at a time in the whole region,
// see suspects.Queue.
type noter struct {
	box     *blackbox.Box
	memory  *memoryUse
	sampled time.Time // when the memory was read

	mu    sync.Mutex
	queue *suspects.Queue
	ready map[*suspects.Turn]chan struct{} // of the turns that wait
}

func newNoter() *noter {
	n := &noter{memory: newMemory("/"), ready: map[*suspects.Turn]chan struct{}{}}
	n.queue = suspects.New(n)
	return n
}

// Begin and the next four methods implement [suspects.Notes].
func (s *noter) Begin(t control.CrashedTurn) int { return s.box.Begin(t) }
func (s *noter) NotAlone(slot int)               { s.box.NotAlone(slot) }
func (s *noter) End(slot int, now time.Time)     { s.box.End(slot, now) }
func (s *noter) Only(t control.CrashedTurn)      { s.box.Only(t) }
func (s *noter) Nobody()                         { s.box.Nobody() }

// noted is a turn that is noted.
type noted struct {
	slot    int            // of a turn that is not a suspect's
	suspect *suspects.Turn // nil: the entity is not a suspect
}

// begin notes a turn, and returns what end needs. A suspect waits until no other suspect runs.
func (s *noter) begin(e sharding.Entity, command string, suspect bool) noted {
	if !suspect {
		return noted{slot: s.box.Begin(control.CrashedTurn{Entity: e, Command: command})}
	}
	n := noted{suspect: &suspects.Turn{Entity: e, Command: command}}
	s.enter(&n)
	return n
}

// enter lets the turn of a suspect begin or go on, alone if no other suspect runs within suspects.AloneWait.
func (s *noter) enter(n *noted) {
	s.mu.Lock()
	if s.queue.Begin(time.Now(), n.suspect) {
		s.mu.Unlock()
		return
	}
	ready := make(chan struct{})
	s.ready[n.suspect] = ready
	s.mu.Unlock()
	timer := time.NewTimer(suspects.AloneWait)
	defer timer.Stop()
	for {
		select {
		case <-ready:
			return
		case <-timer.C:
			s.mu.Lock()
			for _, t := range s.queue.Tick(time.Now()) {
				s.start(t)
			}
			s.mu.Unlock()
		}
	}
}

// start tells a turn that it begins.
func (s *noter) start(t *suspects.Turn) {
	close(s.ready[t])
	delete(s.ready, t)
}

// leave lets other suspects run while the turn of a suspect waits (over is false), or when a turn has ended.
func (s *noter) leave(n *noted, now time.Time, over bool) {
	if n.suspect == nil {
		s.box.End(n.slot, now)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.queue.End(now, n.suspect, over); t != nil {
		s.start(t)
	}
}

// end notes that a turn has ended.
func (s *noter) end(n *noted, now time.Time) { s.leave(n, now, true) }

// corePanicked notes that a shard core has panicked when it took in a command.
func (s *noter) corePanicked(e sharding.Entity, command string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.CorePanicked(e, command)
}

// memoryEvery is the least time between two samples of the memory: a sample reads two files of the kernel, and a turn
// that takes all memory needs some tenths of a second.
const memoryEvery = 100 * time.Millisecond

// alive notes that the process is alive, and how full its memory is. Calls do not overlap.
func (s *noter) alive(now time.Time) {
	if s.box == nil {
		return
	}
	s.box.Alive(now)
	if now.Sub(s.sampled) >= memoryEvery {
		s.sampled = now
		s.box.Memory(s.memory.read())
	}
}

// stepsCore calls a function that steps a core without entities, such as the control core. If it panics, no
// entity is suspected. The panic continues and ends the process.
func (s *noter) stepsCore(f func()) {
	panics := true
	defer func() {
		if panics {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.queue.OtherCorePanicked()
		}
	}()
	f()
	panics = false
}

// openBox opens the file in which the turns are noted, and returns how the process before this one has
// ended. Without the file the region works, too.
func (s *noter) openBox(cfg *Config, self sharding.NodeID, name string, log *slog.Logger) region.Crash {
	h := fnv.New32a()
	_, _ = h.Write([]byte(cfg.Journal.URL)) // never fails
	file := fmt.Sprintf("roost-%s-%s-%08x", cfg.ClusterName, cmp.Or(name, self.Addr), h.Sum32())
	file = strings.Map(func(r rune) rune {
		if r == '/' || r == os.PathSeparator || r == ':' {
			return '_'
		}
		return r
	}, file)
	var box *blackbox.Box
	var report *blackbox.Report
	dir, err := cfg.CrashDir, error(nil)
	if dir == "" {
		dir, err = blackbox.OwnFolder()
	}
	if err == nil {
		exit, _ := suspects.ParseExit(cfg.LastExit) // it was checked
		box, report, err = blackbox.Open(filepath.Join(dir, file), self.UID, exit)
	}
	if err != nil {
		log.Warn("crashes of this process will not be explained", "error", err,
			"hint", "give region.crash_dir a directory of this user that outlives the process")
		return region.Crash{}
	}
	s.box = box
	tellParent(filepath.Join(dir, file))
	if report == nil {
		return region.Crash{}
	}
	if report.Refused != nil {
		log.Warn("crash notes not read", "file", filepath.Join(dir, file), "reason", report.Refused)
		return region.Crash{}
	}
	c := region.Crash{Crash: report.Crash, At: report.At}
	var ran []string
	for _, t := range c.Turns {
		ran = append(ran, strings.TrimSpace(t.Entity.String()+" "+t.Command))
	}
	log.Warn("the previous process ended without leaving", "at", report.At, "cause", cmp.Or(report.Cause, report.Evidence), "turns", ran)
	return c
}

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
)

// aloneWait is how long a turn of a suspect waits at most while another suspect runs. After this time it runs
// beside the other one, because a handler that hangs must not hold others up for ever.
const aloneWait = time.Second

// maxClean bounds the entities whose turns are counted: all suspects of a cluster, twice.
const maxClean = 2000

// suspects makes the turns of suspects run one at a time in the whole region, see turn.Run.Suspect.
type suspects struct {
	box  *blackbox.Box
	turn chan struct{} // has one element while a suspect runs

	mu     sync.Mutex
	holder int // slot of the suspect that runs alone; -1: none does
	clean  map[sharding.Entity]uint32
}

func newSuspects() *suspects {
	return &suspects{turn: make(chan struct{}, 1), holder: -1, clean: map[sharding.Entity]uint32{}}
}

// begin notes a turn, and returns what end needs. A suspect waits until no other suspect runs.
func (s *suspects) begin(e sharding.Entity, command string, suspect bool) noted {
	n := noted{entity: e, command: command}
	if !suspect {
		n.slot = s.box.Begin(&blackbox.Turn{Entity: e, Command: command})
		return n
	}
	n.suspect = true
	s.enter(&n)
	return n
}

// noted is a turn that is noted.
type noted struct {
	entity  sharding.Entity
	command string
	slot    int
	suspect bool
	alone   bool
}

// enter begins a turn of a suspect, alone if no other suspect runs within aloneWait.
func (s *suspects) enter(n *noted) {
	timer := time.NewTimer(aloneWait)
	defer timer.Stop()
	select {
	case s.turn <- struct{}{}:
		n.alone = true
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n.slot = s.box.Begin(&blackbox.Turn{Entity: n.entity, Command: n.command, Alone: n.alone, Clean: s.clean[n.entity]})
	if n.alone {
		s.holder = n.slot
	} else {
		s.box.NotAlone(s.holder)
	}
}

// leave lets other suspects run, while the turn waits or when it has ended.
func (s *suspects) leave(n *noted, now time.Time) {
	s.box.End(n.slot, now)
	if !n.suspect {
		return
	}
	s.mu.Lock()
	if n.alone {
		s.holder = -1
	}
	s.mu.Unlock()
	if n.alone {
		n.alone = false
		<-s.turn
	}
}

// end notes that a turn has ended.
func (s *suspects) end(n *noted, now time.Time) {
	if n.alone {
		s.mu.Lock()
		if len(s.clean) >= maxClean {
			clear(s.clean)
		}
		s.clean[n.entity]++
		s.mu.Unlock()
	}
	s.leave(n, now)
}

// openBox opens the file in which the turns are noted, and returns how the process before this one has
// ended. Without the file the region works, too.
func (s *suspects) openBox(cfg *Config, self sharding.NodeID, name string, log *slog.Logger) region.Crash {
	h := fnv.New32a()
	_, _ = h.Write([]byte(cfg.Journal)) // never fails
	file := fmt.Sprintf("roost-%s-%s-%08x", cfg.ClusterName, cmp.Or(name, self.Addr), h.Sum32())
	path := filepath.Join(cmp.Or(cfg.CrashDir, os.TempDir()), strings.Map(func(r rune) rune {
		if r == '/' || r == os.PathSeparator || r == ':' {
			return '_'
		}
		return r
	}, file))
	box, report, err := blackbox.Open(path, self.UID)
	if err != nil {
		log.Warn("it will not be known which entity has ended this process if one does; give region.crash_dir a directory that can be written and outlives the process", "error", err)
		return region.Crash{}
	}
	s.box = box
	if report == nil {
		return region.Crash{}
	}
	c := region.Crash{At: report.At, Crash: control.Crash{Of: report.Process, Cause: report.Cause}}
	var ran []string
	for _, t := range report.Turns {
		c.Turns = append(c.Turns, control.CrashedTurn{Entity: t.Entity, Command: t.Command, Alone: t.Alone, Clean: t.Clean, Ended: t.Ended})
		ran = append(ran, strings.TrimSpace(t.Entity.String()+" "+t.Command))
	}
	log.Warn("the process before this one has ended without leaving", "at", report.At, "cause", report.Cause, "turns", ran)
	return c
}

package server

import (
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/router"
)

// callTimeout bounds one call: after the same time the core looks for another
// coordinator.
const callTimeout = 2 * time.Second

// discovered takes in where the coordinators are.
func (s *Server) discovered(a discovery.Answer) {
	var c router.Coordinators
	for _, p := range a.Peers {
		if p.Role == "region" {
			c.Regions = append(c.Regions, p.Addr)
		} else {
			c.Addrs = append(c.Addrs, p.Addr)
		}
	}
	s.log.Debug("discovered", "coordinators", c.Addrs, "regions", c.Regions)
	s.router.Do(func() {
		maps.DeleteFunc(s.complaints, func(from, _ string) bool { // or they would gather
			return !slices.Contains(c.Addrs, from) && !slices.Contains(c.Regions, from)
		})
		s.router.Step(c)
	})
}

// ticked is called by the loop with every tick.
func (s *Server) ticked() {
	s.shedder.drop(time.Now())
	if n := s.turnedAway.Swap(0); n > 0 {
		s.router.Step(router.TurnedAway{Commands: int(n)})
	}
}

// answered is called by the loop after the answer to a call. It logs the fault of an address once, because
// the loop retries it again and again.
func (s *Server) answered(in router.Replied, err error) {
	if _, poll := in.Asked.(control.WatchTable); !poll {
		return // a region may be of a release that does not know the question
	}
	if err == nil {
		delete(s.complaints, in.From)
	} else if text := err.Error(); s.complaints[in.From] != text && !s.router.Ended() {
		s.complaints[in.From] = text
		s.log.Warn("no route table", "from", in.From, "error", err)
	}
	table, ok := in.Msg.(control.TableChanged)
	if ok {
		s.heard = time.Now()
	}
	if active := s.router.Core().Coordinator(); active != "" && (s.active.Load() == nil || *s.active.Load() != active) {
		s.active.Store(&active)
	}
	if ok && (len(table.Delta.Types) > 0 || !s.types.Load().known) {
		s.publishTypes()
	}
}

package server

import (
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/services/gateway"
)

// callTimeout bounds one call: after the same time the core looks for another
// coordinator.
const callTimeout = 2 * time.Second

// discovered takes in where the coordinators are.
func (s *Server) discovered(a discovery.Answer) {
	var c gateway.Coordinators
	for _, p := range a.Peers {
		if p.Role == "region" {
			c.Regions = append(c.Regions, p.Addr)
		} else {
			c.Addrs = append(c.Addrs, p.Addr)
		}
	}
	s.log.Debug("discovered", "coordinators", c.Addrs, "regions", c.Regions)
	s.put(func() {
		s.candidates = c
		maps.DeleteFunc(s.complaints, func(from, _ string) bool { // or they would gather
			return !slices.Contains(c.Addrs, from) && !slices.Contains(c.Regions, from)
		})
		s.step(c)
	})
}

// watch polls the table at an address.
func (s *Server) watch(o gateway.Watch) {
	answer, err := s.client.Call(s.ctx, o.To, control.WatchTable{Version: o.Version})
	switch answer := answer.(type) {
	case control.NotActive:
		s.inbox.Put(item{in: gateway.NotActive{From: o.To, Active: answer.Active, Term: answer.Term}})
	case control.TableChanged:
		in := gateway.TableChanged{From: o.To, Delta: answer.Delta}
		s.put(func() { s.tableChanged(in) })
	default:
		s.put(func() { s.watchFailed(o.To, err) })
	}
}

// watchFailed says once what is wrong with an address: it is asked again and
// again.
func (s *Server) watchFailed(from string, err error) {
	if text := err.Error(); s.complaints[from] != text && s.ctx.Err() == nil {
		s.complaints[from] = text
		s.log.Warn("no route table", "from", from, "error", err)
	}
	s.step(gateway.WatchFailed{From: from})
}

func (s *Server) tableChanged(in gateway.TableChanged) {
	delete(s.complaints, in.From)
	s.step(in)
	if len(in.Delta.Types) > 0 || !s.types.Load().known {
		s.publishTypes()
	}
}

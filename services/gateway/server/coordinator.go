package server

import (
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/sharding"
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

// send sends a control message, beside the loop.
func (s *Server) send(o gateway.Send) {
	if !control.IsCall(o.Msg) {
		s.outbox.Send(sharding.NodeID{Addr: o.To}, o.Msg)
		return
	}
	go func() {
		answer, err := s.client.Call(s.ctx, o.To, o.Msg)
		s.put(func() { s.replied(gateway.Replied{From: o.To, Asked: o.Msg, Msg: answer}, err) })
	}()
}

// replied hands the answer to a call to the core. It says once what is wrong with an
// address: it is asked again and again.
func (s *Server) replied(in gateway.Replied, err error) {
	if err == nil {
		delete(s.complaints, in.From)
	} else if text := err.Error(); s.complaints[in.From] != text && s.ctx.Err() == nil {
		s.complaints[in.From] = text
		s.log.Warn("no route table", "from", in.From, "error", err)
	}
	s.step(in)
	if table, ok := in.Msg.(control.TableChanged); ok && (len(table.Delta.Types) > 0 || !s.types.Load().known) {
		s.publishTypes()
	}
}

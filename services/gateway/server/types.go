package server

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/roost-cluster/roost/libs/node/telemetry/histogram"
	"github.com/roost-cluster/roost/libs/sharding"
)

// types is the route table's information about entity types, published by the loop for
// all others. It is never modified.
type types struct {
	known  bool // a table has come
	byName map[sharding.EntityType]*entityType
	other  measures // of requests for types that no region hosts
}

type entityType struct {
	desc     sharding.TypeDesc
	measures measures
}

// measures count a type's requests, by how they ended. Names from outside never become attributes.
type measures map[ending]*histogram.Series

type ending struct {
	code    sharding.Code // empty: success
	outcome sharding.Outcome
}

// success is the ending of a command that succeeded.
var success = ending{outcome: sharding.Executed}

// alarming are the endings that are the cluster's fault and not the caller's. Their series are there from
// the start, for alerts.
var alarming = []ending{
	{sharding.Unavailable, sharding.NotApplied}, {sharding.DeadlineExceeded, sharding.NotApplied}, {sharding.ResourceExhausted, sharding.NotApplied},
	{sharding.Internal, sharding.NotApplied}, {sharding.DataLoss, sharding.NotApplied},
	{sharding.Unavailable, sharding.Unknown}, {sharding.DeadlineExceeded, sharding.Unknown}, {sharding.Internal, sharding.Unknown},
}

func newMeasures(durations *histogram.Histogram, name sharding.EntityType) measures {
	m := measures{}
	add := func(e ending, code string) {
		m[e] = durations.With(attribute.String("roost.entity.type", string(name)),
			attribute.String("roost.code", code), attribute.String("roost.outcome", e.outcome.String()))
	}
	add(success, "ok")
	m[success].Declare()
	for _, code := range append(sharding.Codes(), badRoute) {
		for _, outcome := range []sharding.Outcome{sharding.Executed, sharding.NotApplied, sharding.Unknown} {
			add(ending{code, outcome}, string(code))
		}
	}
	for _, e := range alarming {
		m[e].Declare()
	}
	return m
}

// of returns the series for one end; nil: it went well. Unknown codes count as internal.
func (m measures) of(f *failure) *histogram.Series {
	if f == nil {
		return m[success]
	}
	if o, ok := m[ending{f.code, f.outcome}]; ok {
		return o
	}
	return m[ending{sharding.Internal, f.outcome}]
}

// publishTypes is called inside the loop when types have changed.
func (s *Server) publishTypes() {
	old := s.types.Load()
	next := &types{known: s.router.Core().Table().Version() != sharding.Version{}, byName: map[sharding.EntityType]*entityType{}, other: old.other}
	for _, desc := range s.router.Core().Table().Types() {
		t := &entityType{desc: desc}
		if before := old.byName[desc.Type]; before != nil {
			t.measures = before.measures
		} else {
			t.measures = newMeasures(s.telemetry.duration, desc.Type)
		}
		next.byName[desc.Type] = t
	}
	s.types.Store(next)
}

// measures returns the series for requests to a type.
func (t *types) measures(name sharding.EntityType) measures {
	if known := t.byName[name]; known != nil {
		return known.measures
	}
	return t.other
}

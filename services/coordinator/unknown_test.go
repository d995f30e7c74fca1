package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// checkpointed returns the unknown facts of a checkpoint of a coordinator that found facts.
func checkpointed(most int, facts ...Fact) (unknown []UnknownFact) {
	cfg := DefaultConfig()
	cfg.MaxUnknownFacts = most
	m := New(cfg)
	m.Step(time.Unix(1e6, 0), Elected{Term: 1, Facts: facts}, nil)
	var c cursor
	for f := m.next(&c); f != nil; f = m.next(&c) {
		if u, is := f.(UnknownFact); is {
			unknown = append(unknown, u)
		}
	}
	return unknown
}

// TestUnknownFacts: facts of a later release stop nothing and are in every checkpoint, the
// newest of them, in their order, once.
func TestUnknownFacts(t *testing.T) {
	desc := sharding.TypeDesc{Type: "T", Shards: 1}
	a, b, c := UnknownFact{Name: "later", Payload: "a"}, UnknownFact{Name: "later", Payload: "b"}, UnknownFact{Name: "other", Version: 2}
	for _, x := range []struct {
		most        int
		facts, want []UnknownFact
	}{
		{3, []UnknownFact{a, b, c}, []UnknownFact{a, b, c}},
		{3, []UnknownFact{a, b, a}, []UnknownFact{b, a}},
		{2, []UnknownFact{a, b, c}, []UnknownFact{b, c}},
		{3, nil, nil},
	} {
		facts := []Fact{TypeFact{Desc: desc}}
		for _, f := range x.facts {
			facts = append(facts, f)
		}
		if got := checkpointed(x.most, facts...); !slices.Equal(got, x.want) {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

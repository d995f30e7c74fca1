package bootstrap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Status is the state of the search, for people. It encodes as JSON.
type Status struct {
	// Phase is searching, told, finished, gave-up or, before Start, idle.
	Phase string `json:"phase"`
	// Waiting says for what, while searching.
	Waiting string `json:"waiting,omitempty"`
	// Warning describes an external problem, if any.
	Warning string `json:"warning,omitempty"`
	// LookupFailure is the error of discovery, if the peers are unknown.
	LookupFailure string `json:"lookupFailure,omitempty"`
	// Joining are the members that were told to join through, last.
	Joining []string `json:"joining,omitempty"`
	// Required and StableMargin are as configured; UnchangedMS is for how long
	// discovery has listed the same.
	Required       int   `json:"requiredContactPoints"`
	StableMarginMS int64 `json:"stableMarginMs"`
	UnchangedMS    int64 `json:"unchangedMs"`
	MayForm        bool  `json:"mayFormCluster"`
	// ContactPoints are those that discovery lists.
	ContactPoints []ContactStatus `json:"contactPoints"`
}

// ContactStatus is the state of one contact point.
type ContactStatus struct {
	Addr string `json:"addr"`
	// Node is the address that it gives itself, if it has answered.
	Node string `json:"node,omitempty"`
	// Confirmed is true if its answer is not too old; AgeMS is the answer's age.
	Confirmed bool  `json:"confirmed"`
	AgeMS     int64 `json:"ageMs,omitempty"`
	// Seeds are the members that it knows.
	Seeds []string `json:"seeds,omitempty"`
	// Problem is the reason why the latest question got no good answer.
	Problem string `json:"problem,omitempty"`
}

// Status is a copy and may be kept.
func (m *Machine) Status() Status {
	names := [...]string{idle: "idle", searching: "searching", explicit: "told", finished: "finished", gaveUp: "gave-up"}
	s := Status{
		Phase: names[m.phase], Waiting: m.waitingFor, Warning: m.warning, LookupFailure: m.lookupFailure, Joining: slices.Clone(m.joinSeeds),
		Required: m.cfg.Required, StableMarginMS: m.cfg.StableMargin.Milliseconds(),
		MayForm:       m.cfg.NewCluster && slices.Contains(m.cfg.Roles, m.cfg.FormingRole),
		ContactPoints: []ContactStatus{},
	}
	if m.listed {
		s.UnchangedMS = m.now.Sub(m.changedAt).Milliseconds()
	}
	for i := range m.contacts {
		c := &m.contacts[i]
		t := ContactStatus{Addr: c.addr, Problem: c.problem, Confirmed: m.fresh(c)}
		if !c.answerAt.IsZero() {
			t.Node, t.AgeMS = c.answer.SelfNode, m.now.Sub(c.answerAt).Milliseconds()
			for _, n := range c.answer.SeedNodes {
				t.Seeds = append(t.Seeds, n.Node)
			}
		}
		s.ContactPoints = append(s.ContactPoints, t)
	}
	return s
}

// Check verifies what must hold after every step.
func (m *Machine) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(m.contacts) > m.cfg.MaxContacts {
		bad("%d contact points, at most %d are allowed", len(m.contacts), m.cfg.MaxContacts)
	}
	if len(m.joinSeeds) > maxSeeds {
		bad("joins through %d members, at most %d are queried", len(m.joinSeeds), maxSeeds)
	}
	if m.listed != (m.lookupFailure == "") && m.phase != idle {
		bad("listed is %v, and the lookup fails by %q", m.listed, m.lookupFailure)
	}
	if m.phase != searching && m.phase != explicit && m.phase != gaveUp && m.waitingFor != "" {
		bad("waits for something while nothing is in progress: %s", m.waitingFor)
	}
	for i := range m.contacts {
		c := &m.contacts[i]
		if i > 0 && m.contacts[i-1].point.Compare(c.point) > 0 {
			bad("contact points are not in order: %s, %s", m.contacts[i-1].addr, c.addr)
		}
		if len(c.answer.SeedNodes) > maxSeeds || c.answerAt.After(m.now) || c.foreign && !c.invalid {
			bad("contact point %s: %+v", c.addr, *c)
		}
	}
	return errors.Join(errs...)
}

// Clone is an independent copy. The decider is shared.
func (m *Machine) Clone() *Machine {
	c := *m
	c.out = nil
	c.contacts = slices.Clone(m.contacts) // answers are never changed in place
	c.joinSeeds = slices.Clone(m.joinSeeds)
	return &c
}

// AppendState appends the canonical form of the whole machine, with times
// relative to the time of the last step.
func (m *Machine) AppendState(b []byte) []byte {
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	since := func(t time.Time) {
		if t.IsZero() {
			b = append(b, 0)
			return
		}
		b = binary.AppendVarint(append(b, 1), int64(t.Sub(m.now)))
	}
	flag := func(set bool) {
		b = append(b, 0)
		if set {
			b[len(b)-1] = 1
		}
	}
	b = append(b, byte(m.phase))
	text(m.cfg.Self.String())
	since(m.startedAt)
	since(m.changedAt)
	flag(m.listed)
	text(m.lookupFailure)
	text(m.waitingFor)
	text(m.warning)
	b = binary.AppendUvarint(b, uint64(len(m.joinSeeds)))
	for _, j := range m.joinSeeds {
		text(j)
	}
	random, _ := m.random.MarshalBinary() // cannot fail
	b = append(b, random...)
	b = binary.AppendUvarint(b, uint64(len(m.contacts)))
	for i := range m.contacts {
		c := &m.contacts[i]
		text(c.addr)
		for _, set := range []bool{c.forms, c.invalid, c.foreign} {
			flag(set)
		}
		since(c.nextQuery)
		since(c.queriedAt)
		text(c.problem)
		since(c.answerAt)
		if !c.answerAt.IsZero() {
			b = c.answer.appendState(b)
		}
	}
	return b
}

func (a *Answer) appendState(b []byte) []byte {
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	list := func(all []string) {
		b = binary.AppendUvarint(b, uint64(len(all)))
		for _, s := range all {
			text(s)
		}
	}
	text(a.SelfNode)
	text(a.Cluster)
	list(a.SelfRoles)
	b = binary.AppendVarint(b, a.SelfUID)
	b = append(b, 0)
	if a.InCluster {
		b[len(b)-1] = 1
	}
	b = binary.AppendUvarint(b, uint64(len(a.SeedNodes)))
	for _, s := range a.SeedNodes {
		text(s.Node)
		text(s.Status)
		list(s.Roles)
		b = binary.AppendVarint(b, s.NodeUID)
	}
	return b
}

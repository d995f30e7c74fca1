package sharding_test

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

func TestKeyTime(t *testing.T) {
	// The example of RFC 9562, appendix A.6.
	at, ok := sharding.KeyTime("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")
	if want := time.Date(2022, 2, 22, 19, 22, 22, 0, time.UTC); !ok || !at.Equal(want) {
		t.Fatalf("%v, %v, want %v", at, ok, want)
	}
	for _, id := range []sharding.CommandID{
		"", "plain", "017F22E2-79B0-4CC3-98C4-DC0C0C07398F", // version 4
		"017F22E2-79B0-7CC3-18C4-DC0C0C07398F", // another variant
		"017F22E2-79B0-7CC3-98C4-DC0C0C07398G", "017F22E2-79B0-7CC3-98C4_DC0C0C07398F", "017F22E2-79B0-7CC3-98C4-DC0C0C07398",
	} {
		if at, ok := sharding.KeyTime(id); ok {
			t.Errorf("%q has the time %v", id, at)
		}
	}
}

func TestDerivedKeys(t *testing.T) {
	at := time.UnixMilli(1700000000123).UTC()
	key := sharding.DerivedKey(sharding.AskPrefix, at, "a", "bc")
	if got, ok := sharding.KeyTime(key); !ok || !got.Equal(at) {
		t.Errorf("%s has the time %v, %v, want %v", key, got, ok, at)
	}
	timeless := sharding.DerivedKey(sharding.AskPrefix, time.Time{}, "a", "bc")
	if got, ok := sharding.KeyTime(timeless); ok {
		t.Errorf("%s has the time %v", timeless, got)
	}
	if again := sharding.DerivedKey(sharding.AskPrefix, at, "a", "bc"); again != key {
		t.Errorf("%s, then %s", key, again)
	}
	if other := sharding.DerivedKey(sharding.AskPrefix, at, "ab", "c"); other == key {
		t.Errorf("other parts have the same key %s", key)
	}
	for _, id := range []sharding.CommandID{key, timeless, sharding.DerivedKey(sharding.SendPrefix, at, "x")} {
		env := sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "x"}, Command: "Do", Keyed: true, ID: id}
		if err := env.CheckFromPeer(); err != nil {
			t.Errorf("refused from inside: %v", err)
		}
		if env.Check() == nil {
			t.Errorf("key %s is accepted from outside", id)
		}
		if env.ID += "0"; env.CheckFromPeer() == nil {
			t.Errorf("key %s is accepted", env.ID)
		}
	}
}

func TestProbesComeFromInside(t *testing.T) {
	env := sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "x"}, Command: sharding.ProbeCommand}
	if env.Check() == nil || env.CheckFromPeer() != nil {
		t.Errorf("from outside: %v, from inside: %v", env.Check(), env.CheckFromPeer())
	}
}

func TestChainsAreChecked(t *testing.T) {
	env := sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "x"}, Command: "Do", ID: "k"}
	for range sharding.MaxChain {
		env.Chain = append(env.Chain, sharding.Entity{Type: "T", ID: "y"})
	}
	if err := env.CheckFromPeer(); err != nil {
		t.Error(err)
	}
	bad := env
	bad.Chain = append(bad.Chain, bad.Chain[0])
	if bad.CheckFromPeer() == nil {
		t.Error("a chain that is too long is accepted")
	}
	bad.Chain = []sharding.Entity{{Type: "T"}}
	if bad.CheckFromPeer() == nil {
		t.Error("a chain with an empty id is accepted")
	}
}

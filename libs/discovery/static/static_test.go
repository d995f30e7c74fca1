package static_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/discovery/discoverytest"
	"github.com/roost-cluster/roost/libs/discovery/static"
)

func TestConformance(t *testing.T) {
	discoverytest.Run(t, func(t *testing.T, peers []discovery.Peer) discoverytest.Harness {
		texts := make([]string, len(peers))
		for i, p := range peers {
			texts[i] = p.String()
		}
		b, err := static.Open(strings.Join(texts, ","))
		if err != nil {
			t.Fatal(err)
		}
		return discoverytest.Harness{Backend: b}
	})
}

func TestNew(t *testing.T) {
	b, err := static.Open(" a:1 ,coordinator@b.example:2,[::1]:3")
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Peers(context.Background())
	want := []discovery.Peer{{Addr: "a:1"}, {Addr: "b.example:2", Role: "coordinator"}, {Addr: "[::1]:3"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, list := range []string{"a", "a:1,", ",a:1", "a:1 b:2", "a:1;b:2"} {
		if _, err := static.Open(list); !errors.Is(err, discovery.ErrConfig) {
			t.Errorf("%q gives %v", list, err)
		}
	}
}

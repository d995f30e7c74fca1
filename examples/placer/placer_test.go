package placer

import (
	"maps"
	"testing"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		name         string
		now, regions []string
		want         map[uint32]string
	}{
		{"nothing is placed yet", make([]string, 4), []string{"a", "b"}, map[uint32]string{0: "a", 1: "b", 2: "a", 3: "b"}},
		{"what is right stays", []string{"b", "b", "a", "a"}, []string{"a", "b"}, map[uint32]string{0: "b", 1: "b", 2: "a", 3: "a"}},
		{"a region without the label", []string{"c", "b", "c", "a"}, []string{"a", "b"}, map[uint32]string{0: "a", 1: "b", 2: "b", 3: "a"}},
		{"a region has come", []string{"a", "a", "a", "a"}, []string{"a", "b"}, map[uint32]string{0: "a", 1: "a", 2: "b", 3: "b"}},
		{"no region", []string{"a"}, nil, nil},
	} {
		if got := spread(c.now, c.regions); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

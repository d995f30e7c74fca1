package outbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestLatePage: a page that was late, or that could not be read, does not set the clock back.
func TestLatePage(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	d, out := outbox.New(outbox.DefaultConfig()), outbox.Outputs{}
	d.Step(now, outbox.Open{Shard: sharding.ShardID{Type: "C"}, Epoch: 1}, &out)
	for _, page := range []struct {
		took time.Duration
		zero bool
	}{{}, {took: 5 * time.Second}, {zero: true}, {}} {
		for len(out.Reads) == 0 {
			now = now.Add(100 * time.Millisecond)
			d.Step(now, outbox.Tick{}, &out)
		}
		r, asked := out.Reads[0], now
		out = outbox.Outputs{}
		now = now.Add(page.took)
		if page.zero {
			asked = time.Time{}
		}
		d = d.Clone() // which knows when it has asked
		d.Step(now, outbox.Page{Number: r.Number, SendsPage: journal.SendsPage{Now: asked}}, &out)
		if state := string(d.AppendState(now, nil)); !strings.Contains(state, "clock true 0 slack 0") {
			t.Errorf("after a page that took %s: %.80s", page.took, state)
		}
	}
}

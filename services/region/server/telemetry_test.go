package server

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// TestAttributesAreBounded: what an entity or a caller makes up takes no series of
// its own.
func TestAttributesAreBounded(t *testing.T) {
	s, err := NewRunner(RunnerConfig{
		Self: sharding.NodeID{Addr: "r:1", UID: 1}, Name: "r", Types: []entity.Definition{blobs(nil)},
		Inbox: 1, StopTimeout: time.Second, Log: slog.New(slog.DiscardHandler), Outside: func(region.ControlOutput) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	l := s.shards[0]
	for i := range 100 {
		l.measures(attributeKey{"Blob", "Fill", sharding.NotFound, sharding.NotApplied})
		l.measures(attributeKey{"Blob", "Fill", sharding.Code(fmt.Sprint("code", i)), sharding.Executed})
		l.measures(attributeKey{"Blob", fmt.Sprint("Command", i), "", sharding.Executed})
		l.measures(attributeKey{sharding.EntityType(fmt.Sprint("Type", i)), "Fill", "", sharding.Executed})
	}
	if n := len(l.attributes); n != 4 {
		t.Errorf("%d sets of attributes, want 4", n)
	}
}

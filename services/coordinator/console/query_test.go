package console

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestShardsWithoutRegion: it is said how many shards no region has, of those in question.
func TestShardsWithoutRegion(t *testing.T) {
	a := New(Config{})
	view := coordinator.View{Types: []sharding.TypeDesc{{Type: "T", Shards: 4}, {Type: "U", Shards: 2}, {Type: "V", Shards: 3, Volatile: true}}}
	for _, typ := range view.Types {
		for i := range typ.Shards {
			view.Rows = append(view.Rows, sharding.Row{Shard: sharding.ShardID{Type: typ.Type, Index: i}, Epoch: 7, Phase: sharding.Starting})
		}
	}
	for _, x := range []struct {
		typ  sharding.EntityType
		id   sharding.EntityID
		want string
	}{{"", "", "6 shards"}, {"T", "", "4 shards"}, {"T", "e", "1 shard has"}, {"V", "", ""}} {
		w := wanted{typ: x.typ, id: x.id, limit: 10, view: view}
		found, more, silent := a.failing(inspectionv1.Kind_KIND_SENDS, &w).longest(t.Context(), &w)
		if len(found) > 0 || more || len(silent) > 1 || (len(silent) == 1) != (x.want != "") || x.want != "" && !strings.HasPrefix(silent[0].Reason, x.want) {
			t.Errorf("of %q %q: %v, %v", x.typ, x.id, found, silent)
		}
	}

	// Of those that no region reads it is said why, and what to do: below a list, and of each reminder.
	index := shardingtest.ShardOf("e", 4)
	view.Unreadable = []coordinator.UnreadableShards{{
		Type: "T", Shards: []uint32{index}, Closest: "region-1", Version: "v2", By: []string{"v3"},
		Forms: []sharding.Form{{Kind: sharding.FormOfInput, Name: "Close", Version: 2}},
	}}
	w := wanted{limit: 10, view: view}
	f := a.failing(inspectionv1.Kind_KIND_REMINDERS, &w)
	_, _, silent := f.longest(t.Context(), &w)
	if len(silent) != 2 || !strings.HasPrefix(silent[0].Reason, "unreadable are 1 of the shards of T") || !strings.Contains(silent[0].Reason, "input Close, version 2") ||
		!strings.Contains(silent[0].Reason, "Start a region of v3") || !strings.HasPrefix(silent[1].Reason, "5 shards have no region") {
		t.Errorf("said of unreadable shards: %v", silent)
	}
	other := "f"
	for shardingtest.ShardOf(sharding.EntityID(other), 4) == index {
		other += "f"
	}
	found, silent := f.lookup(t.Context(), []*inspectionv1.Subject{{Type: "T", Id: "e"}, {Type: "T", Id: other}})
	if told := f.failure(found[0]); told == nil || told.Code != string(sharding.Unavailable) || !strings.Contains(told.Message, "its shard is unreadable") || !strings.Contains(told.Message, "v3") || found[1] != nil || len(silent) != 2 {
		t.Errorf("reported for the data in an unreadable shard: %v, and for others: %v; %v", told, found[1], silent)
	}
}

package journal_test

import (
	"errors"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestDeclaredRule: a rule that makes no sense is not declared.
func TestDeclaredRule(t *testing.T) {
	ruled := sharding.TypeDesc{Type: "Order", Shards: 8, Rule: sharding.ShardRule{Separator: "/"}}
	d := journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{ruled}}
	if _, err := journal.NewFacts(7).Merge(d); err != nil {
		t.Error(err)
	}
	d.Types[0].Rule = sharding.ShardRule{Separator: "-", Part: -1}
	if _, err := journal.NewFacts(7).Merge(d); !errors.Is(err, sharding.ErrBadName) {
		t.Errorf("part -1: %v", err)
	}
}

package journal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestShardRuleNeedsActivation: a type with a shard rule is declared only in a journal that no
// coordinator of a release without rules can use.
func TestShardRuleNeedsActivation(t *testing.T) { rulesFormat(t, t.Errorf) }

func rulesFormat(t *testing.T, complain func(string, ...any)) {
	ruled := sharding.TypeDesc{Type: "Order", Shards: 8, Rule: sharding.ShardRule{Separator: "/"}}
	d := journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{ruled}}
	f := journal.NewFacts(7)
	if _, err := f.Merge(d); err != nil {
		t.Error(err)
	}
	f.MinReader, f.MinWriter = 1, 1 // expanded, not activated
	if _, err := f.Merge(d); !errors.Is(err, journal.ErrNotActivated) || !strings.Contains(err.Error(), "type Order has a shard rule") {
		complain("before the activation: %v", err)
	}
	d.Types[0].Rule = sharding.ShardRule{}
	if _, err := f.Merge(d); err != nil {
		t.Errorf("without a rule: %v", err)
	}
	d.Types[0].Rule = sharding.ShardRule{Separator: "-", Part: -1}
	if _, err := journal.NewFacts(7).Merge(d); !errors.Is(err, sharding.ErrBadName) {
		t.Errorf("part -1: %v", err)
	}
}

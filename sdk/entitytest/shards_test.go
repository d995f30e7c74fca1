package entitytest

import (
	"fmt"
	"testing"

	"github.com/roost-cluster/roost/sdk/entity"
)

// complaints records the errors of a test instead of failing it.
type complaints struct {
	testing.TB
	texts []string
}

func (c *complaints) Helper() {}

func (c *complaints) Errorf(format string, args ...any) {
	c.texts = append(c.texts, fmt.Sprintf(format, args...))
}

// TestWantOneShard: ids are together if the rule keeps them together, not if their hashes meet.
func TestWantOneShard(t *testing.T) {
	with := entity.With[schemaBox]
	ruled := New(t, schemaBoxes(with(entity.ShardBy(entity.Prefix("/")), entity.Shards(1))))
	if key := ruled.Entity(schemaBoxes(), "a/1").ShardKey(); key != "a" {
		t.Errorf("the shard key of a/1 is %q", key)
	}
	ruled.WantOneShard(schemaBoxes(), "a/1", "a/2", "a")
	for name, c := range map[string]struct {
		def  entity.Definition
		ids  []string
		want int
	}{
		"another prefix": {schemaBoxes(with(entity.ShardBy(entity.Prefix("/")), entity.Shards(1))), []string{"a/1", "a/2", "b/1"}, 1},
		"no rule":        {schemaBoxes(with(entity.Shards(1))), []string{"a/1", "a/2"}, 1},
		"one id":         {schemaBoxes(), []string{"a/1"}, 0},
	} {
		k := New(t, c.def)
		got := &complaints{TB: t}
		k.t = got
		k.WantOneShard(c.def, c.ids...)
		if len(got.texts) != c.want {
			t.Errorf("%s: %q", name, got.texts)
		}
	}
}

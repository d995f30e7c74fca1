package entity_test

import (
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/sdk/entity"
)

func TestShardBy(t *testing.T) {
	d := instance.Describe(boxes(entity.ShardBy(entity.Part("-", 1))))
	if d.Desc.ShardOf("eu-17-a") != d.Desc.ShardOf("us-17-b") {
		t.Errorf("%+v", d.Desc.Rule)
	}
	if entity.Prefix("/") != entity.Part("/", 0) {
		t.Error("a prefix is part 0")
	}
	for want, rule := range map[string]entity.ShardRule{
		"ShardBy has an empty separator": entity.Prefix(""),
		"takes part -1 of an id":         entity.Part("-", -1),
		"takes part 257 of an id":        entity.Part("-", 257),
		"control character":              entity.Prefix("\n"),
		"at most 16 are allowed":         entity.Prefix(strings.Repeat("-", 17)),
	} {
		if err := boxMistake(entity.ShardBy(rule)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "entity type Box") {
			t.Errorf("%+v: %v, want %s", rule, err, want)
		}
	}
}

package partitions_test

import (
	"testing"

	"github.com/roost-cluster/roost/examples/partitions"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// TestShardIsPartition compares with the hashes of Kafka's own tests (UtilsTest.testMurmur2).
func TestShardIsPartition(t *testing.T) {
	k := entitytest.New(t, partitions.Meters)
	for key, hash := range map[string]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107} {
		partition := (hash & 0x7fffffff) % partitions.Partitions
		if got := k.Entity(partitions.Meters, key).Shard(); got != uint32(partition) {
			t.Errorf("the meter %s is in shard %d, its records are in partition %d", key, got, partition)
		}
	}
}

func TestRecordIsAddedOnce(t *testing.T) {
	k := entitytest.New(t, partitions.Meters)
	for range 2 {
		if err := partitions.Consume(t.Context(), k, 3, 17, "abc", partitions.Reading{WattHours: 5}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := partitions.Get.Call(t.Context(), k, "abc", struct{}{}); err != nil || got.WattHours != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSchema(t *testing.T) { entitytest.Schema(t, partitions.Meters) }

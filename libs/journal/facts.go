package journal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Format is the version of the stored format that this package reads and writes.
const Format = 1

// Merge checks a declaration against the facts and returns the new facts. Errors
// wrap ErrIdentity for another cluster or format, and ErrShardCount for another
// number of shards.
func (f Facts) Merge(d Declaration) (Facts, error) {
	if f.Cluster != "" && f.Format != Format {
		return f, fmt.Errorf("%w: it has format %d, this version knows format %d; run the version that wrote it, or give the cluster a new journal", ErrIdentity, f.Format, Format)
	}
	if d.Cluster == "" {
		if len(d.Types) > 0 {
			return f, fmt.Errorf("%w: types are declared without the name of the cluster", ErrIdentity)
		}
		return f, nil
	}
	if err := sharding.CheckCluster("cluster name", d.Cluster); err != nil {
		return f, err
	}
	if f.Cluster != "" && f.Cluster != d.Cluster {
		return f, fmt.Errorf("%w: it belongs to cluster %q, this process to %q; name that cluster in cluster.name to join it, or give this one a journal.url of its own", ErrIdentity, f.Cluster, d.Cluster)
	}
	f.Cluster, f.Format = d.Cluster, Format
	f.Types = slices.Clone(f.Types)
	for _, t := range d.Types {
		if err := f.declare(t); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *Facts) declare(t sharding.TypeDesc) error {
	if err := sharding.CheckEntityType("entity type", t.Type); err != nil {
		return err
	}
	if t.Shards == 0 || t.Shards > sharding.MaxShards {
		return fmt.Errorf("type %s declares %d shards; choose 1 to %d", t.Type, t.Shards, sharding.MaxShards)
	}
	i, found := slices.BinarySearchFunc(f.Types, t.Type, func(a TypeFact, b sharding.EntityType) int {
		return strings.Compare(string(a.Type), string(b))
	})
	if !found {
		f.Types = slices.Insert(f.Types, i, TypeFact{Type: t.Type, Shards: t.Shards})
		return nil
	}
	if have := f.Types[i].Shards; have != t.Shards {
		return fmt.Errorf("%w: type %s has %d shards in the journal, and is declared with %d; the number is fixed when a type is first declared",
			ErrShardCount, t.Type, have, t.Shards)
	}
	return nil
}

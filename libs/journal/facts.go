package journal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Mark is the first byte of the input of every checksum of a journal and of a backup. Development versions
// counted formats up to 2 and then began again at 1, with this mark. What lacks it may report format 1
// and has another layout, so it is refused: see [ErrUnmarked].
const Mark = 'R'

// ErrUnmarked: the store, or a backup of one, lacks the mark of today's formats.
var ErrUnmarked = fmt.Errorf("%w: a development version made it before the formats began again at 1, and this program would misread it; give the cluster a new journal", ErrIdentity)

// NewFacts returns the facts of a new journal, without declarations.
func NewFacts(g sharding.Generation) Facts {
	return Facts{Format: Format, MinReader: Format, MinWriter: Format, Generation: g}
}

// Check returns why this program must not use the journal. The error wraps ErrIdentity and
// names the remedy.
func (f Facts) Check() error { return f.check(max(f.MinReader, f.MinWriter)) }

// CheckReader is Check for a program that only reads.
func (f Facts) CheckReader() error { return f.check(f.MinReader) }

// Activated returns the format below which no program can use the journal.
func (f Facts) Activated() int { return min(f.MinReader, f.MinWriter) }

func (f Facts) check(lowest int) error {
	switch {
	case f.Format == 0 || f.MinReader == 0 || f.MinWriter == 0 || f.Generation == 0:
		return fmt.Errorf("%w: its format, min_reader, min_writer or generation is 0, and no program stores that; restore a backup of it, or give the cluster a new journal", ErrIdentity)
	case activated(lowest) != nil:
		return activated(lowest)
	case f.Format < Format:
		return fmt.Errorf("%w: its schema has format %d, and this program needs format %d; run \"roost journal upgrade\" of this release first, as the owner of the schema", ErrIdentity, f.Format, Format)
	}
	return nil
}

// activated returns an error for a program that does not know the lowest format that it must
// know.
func activated(lowest int) error {
	// Invariant: if an operator has activated a journal for a later format ([upgrading](../running/upgrading.md)) than
	// a process knows, the process does not use this journal.
	// Guarded by: `Facts.Check` checks the format when the journal is opened. `Facts.CheckOpened` checks the format in
	// every transaction.
	// Mutants: journal-format
	if lowest <= Format { //mutant:true journal-format
		return nil
	}
	return fmt.Errorf("%w: it was activated for format %d, and this program knows format %d; run the release that activated it, or a later one: there is no way back from an activation", ErrIdentity, lowest, Format)
}

// CheckOpened returns why a process that found the generation opened, when it opened the
// journal, must stop: the generation of the journal has changed, or it was activated for a
// format that this program does not know. Of f, only Generation, MinReader and MinWriter
// matter. The error wraps ErrBroken, and ErrReplaced or ErrIdentity.
func (f Facts) CheckOpened(opened sharding.Generation) error {
	return f.checkOpened(opened, max(f.MinReader, f.MinWriter))
}

// CheckOpenedReader is CheckOpened for what only reads: MinWriter does not matter.
func (f Facts) CheckOpenedReader(opened sharding.Generation) error {
	return f.checkOpened(opened, f.MinReader)
}

func (f Facts) checkOpened(opened sharding.Generation, lowest int) error {
	// Invariant: if another journal has taken the place of a journal, nothing that was learned from the old one is used
	// with the new one.
	// Guarded by: the journal's [generation](../running/upgrading.md#the-generation-of-a-journal) is compared in four
	// places: in every transaction (`Facts.CheckOpened`), at registration (`coordinator.checkJournal`), with every
	// table (`region.watched`) and in the handshake of a link.
	// Mutants: journal-generation, region-generation, table-generation, router-generation, link-generation
	if opened != f.Generation { //mutant:false journal-generation
		return fmt.Errorf("%w: %w: it has generation %s, this process opened generation %s; restart this process, which then reads everything anew", ErrBroken, ErrReplaced, f.Generation, opened)
	}
	if err := activated(lowest); err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return nil
}

// Merge checks a declaration against the facts and returns the new facts. Errors
// wrap ErrIdentity for another cluster or a format that does not suit, and ErrShardCount
// for another number of shards.
func (f Facts) Merge(d Declaration) (Facts, error) {
	if err := f.Check(); err != nil {
		return f, err
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
	f.Cluster = d.Cluster
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
	if err := t.Rule.Check(); err != nil {
		return fmt.Errorf("type %s: %w", t.Type, err)
	}
	i, found := slices.BinarySearchFunc(f.Types, t.Type, func(a TypeFact, b sharding.EntityType) int {
		return strings.Compare(string(a.Type), string(b))
	})
	if !found {
		f.Types = slices.Insert(f.Types, i, TypeFact{Type: t.Type, Shards: t.Shards})
		return nil
	}
	if have := f.Types[i].Shards; have != t.Shards {
		return fmt.Errorf("%w: type %s has %d shards in the journal, and is declared with %d; the number is fixed when a type is first declared: declare it with Shards(%d), or give the type another name",
			ErrShardCount, t.Type, have, t.Shards, have)
	}
	return nil
}

package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// factsSQL reads what is declared in one statement, which sees one moment, and
// epochsSQL the epochs as well.
const (
	factsSQL = `
	SELECT 0, coalesce(cluster, ''), generation, format, min_reader, min_writer FROM roost.meta WHERE roost
	UNION ALL SELECT 1, name, shards, 0, 0, 0 FROM roost.type`
	epochsSQL = factsSQL + `
	UNION ALL SELECT 2, '', epoch, 0, 0, 0 FROM roost.fence`
)

// Declare implements [journal.Backend].
func (d *Backend) Declare(ctx context.Context, decl journal.Declaration) (journal.Facts, error) {
	var facts journal.Facts
	query := factsName
	if decl.Cluster == "" {
		query = epochsName
	}
	err := d.write(ctx, func(conn *pgx.Conn) (err error) {
		facts, err = readFacts(ctx, conn, query)
		return err
	})
	if err != nil {
		return journal.Facts{}, err
	}
	if err := facts.CheckOpened(d.generation); err != nil {
		return journal.Facts{}, err
	}
	merged, err := facts.Merge(decl)
	if err != nil {
		return journal.Facts{}, err
	}
	if merged.Cluster == facts.Cluster && len(merged.Types) == len(facts.Types) {
		return merged, nil
	}
	names, numbers := make([]string, len(merged.Types)), make([]int64, len(merged.Types))
	for i, t := range merged.Types {
		names[i], numbers[i] = string(t.Type), int64(t.Shards)
	}
	var stored bool
	err = d.write(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, declareName, journal.Format, int64(d.generation), merged.Cluster, names, numbers).Scan(&stored)
	})
	if err != nil {
		return journal.Facts{}, err
	}
	if !stored {
		// Another process was faster: look again at what it declared.
		return journal.Facts{}, fmt.Errorf("%w: something else was declared at the same time", journal.ErrNotCommitted)
	}
	return merged, nil
}

func readFacts(ctx context.Context, conn *pgx.Conn, query string) (journal.Facts, error) {
	var f journal.Facts
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return f, err
	}
	var kind, format, minReader, minWriter int
	var name string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&kind, &name, &n, &format, &minReader, &minWriter}, func() error {
		switch kind {
		case 0:
			f.Cluster, f.Generation = name, sharding.Generation(n)
			f.Format, f.MinReader, f.MinWriter = format, minReader, minWriter
		case 1:
			f.Types = append(f.Types, journal.TypeFact{Type: sharding.EntityType(name), Shards: uint32(n)})
		case 2:
			f.MaxEpoch = max(f.MaxEpoch, sharding.Epoch(n))
		}
		return nil
	})
	slices.SortFunc(f.Types, func(a, b journal.TypeFact) int { return cmp.Compare(a.Type, b.Type) })
	return f, err
}

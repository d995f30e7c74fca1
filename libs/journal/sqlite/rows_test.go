package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
)

// TestPagePlans: a page is read from its position on, by an index that is in its order, and
// nothing is sorted: it costs as much as it returns.
func TestPagePlans(t *testing.T) {
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, c := range map[string]struct {
		query string
		args  int
		want  string // the search in the index
	}{
		"wakes": {wakesSQL, 8, "USING INDEX wake_by_due (type=? AND shard=? AND (due,entity,kind,name)>(?,?,?,?) AND due<?)"},
		"sends": {sendsSQL, 5, "USING INDEX pending_send (type=? AND shard=? AND (entity,seq)>(?,?))"},
		"dead":  {deadSQL, 5, "USING INDEX dead_send (type=? AND shard=? AND (entity,seq)>(?,?))"},
	} {
		var plan []string
		rows, err := d.reads.db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+c.query, make([]any, c.args)...)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(plan, "; "); !strings.Contains(got, c.want) || strings.Contains(got, "TEMP B-TREE") || strings.Contains(got, "SCAN") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

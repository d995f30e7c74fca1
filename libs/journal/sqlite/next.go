//go:build nextformat

package sqlite

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/journal"
)

// schemaBefore makes a journal of the format before.
var schemaBefore = schema

// The made-up next format stores with each record whether it was written after the activation. A program of the
// format before does not name the column when it adds a record.
func init() {
	expansions[journal.Format] = fmt.Sprintf("ALTER TABLE record ADD COLUMN format INTEGER NOT NULL DEFAULT %d", journal.Format-1)
	schema += expansions[journal.Format]
	addRecordSQL = "INSERT INTO record (entity, seq, age, writer, elapsed, body, reply, format) VALUES (?, ?, ?, ?, ?, ?, ?, (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'min_reader'))"
}

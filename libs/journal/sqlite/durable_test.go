package sqlite

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
)

// TestSynchronous asks every connection that writes to the file, or copies its
// log, whether it syncs before a commit is reported. Without it everything works,
// until the power fails.
func TestSynchronous(t *testing.T) {
	b, err := Open(context.Background(), filepath.Join(t.TempDir(), "j.db"), journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	reader, err := b.reads.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for name, conn := range map[string]*sql.Conn{"writer": b.conn, "checkpoints": b.checkpoints.conn, "loads": reader} {
		for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "mmap_size": "0"} {
			var got string
			if err := conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil {
				t.Fatalf("%s of %s: %v", pragma, name, err)
			}
			if got != want {
				t.Errorf("%s of the connection for %s is %s, want %s", pragma, name, got, want)
			}
		}
	}
}

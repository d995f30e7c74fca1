package sqlite

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestColumnOfAnotherType: a value of another type than is stored there is damage, not 0. The epoch of a fence would belong to
// an unclaimed shard.
func TestColumnOfAnotherType(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	a, b := openBackend(t, path), openBackend(t, path)
	claim := []journal.Op{{Claim: &sharding.Claim{Shard: benchShard, Epoch: 7, Owner: 1}}}
	_, err := a.Commit(t.Context(), claim)
	must(t, err)
	if _, err := b.conn.ExecContext(t.Context(), "UPDATE fence SET epoch = 'seven'"); err != nil {
		t.Fatal(err)
	}
	claim[0].Claim.Epoch = 1
	if r, err := a.Commit(t.Context(), claim); !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("a claim below the epoch that was damaged: %v, %v, want ErrCorrupt", r, err)
	}

	var n int64
	var text string
	var bytes []byte
	var yes bool
	for _, c := range []struct {
		value any
		to    any
		bad   bool
	}{
		{[]byte(nil), &n, true}, {[]byte(nil), &yes, true}, {[]byte(nil), &text, true}, {[]byte(nil), &bytes, false},
		{"1", &n, true}, {"1", &text, false}, {"1", &bytes, true},
		{int64(1), &n, false}, {int64(1), &yes, false}, {int64(1), &text, true},
		{[]byte{1}, &bytes, false}, {[]byte{}, &bytes, false}, {[]byte{1}, &text, true},
	} {
		s, err := a.handle.prepare("SELECT ?")
		must(t, err)
		if err := s.QueryRow(c.value).Scan(c.to); damaged(err) != c.bad {
			t.Errorf("%T %v as %T: %v", c.value, c.value, c.to, err)
		}
		s.close()
	}
}

// TestArgumentsOfAStatement: an argument too few would leave a parameter with the memory of the last execution.
func TestArgumentsOfAStatement(t *testing.T) {
	d := openBackend(t, filepath.Join(t.TempDir(), "j.db"))
	for _, args := range [][]any{{}, {int64(1)}, {int64(1), int64(2), int64(3), int64(4)}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d arguments for 3 parameters", len(args))
				}
			}()
			_ = d.write.dropCommand.Exec(args...)
		}()
	}
}

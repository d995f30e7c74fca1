package sqlite

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/journaltest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestFlippedBitsOfTheLog inverts one bit of a page in the write-ahead log of a file
// that two processes use. Operations that need the page are refused as damaged,
// none gets a wrong answer, and all others succeed. That remains so when the log is
// copied into the main file, and when the file is opened again; the page alone is
// lost.
func TestFlippedBitsOfTheLog(t *testing.T) {
	w := newFlipWorld(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 4 {
		w.flippedLog(t, rng)
	}
}

func (w *flipWorld) flippedLog(t *testing.T, rng *rand.Rand) {
	path := filepath.Join(t.TempDir(), "j.db")
	if err := os.WriteFile(path, w.file, 0o600); err != nil {
		t.Fatal(err)
	}
	handles := make([]*Backend, 2)
	for i := range handles {
		var err error
		if handles[i], err = Open(context.Background(), path, journal.DefaultConfig()); err != nil {
			t.Fatal(err)
		}
		handles[i].pagesSinceCheck = math.MinInt / 2 // checkpoints come when the test wants them
		t.Cleanup(func() { _ = handles[i].Close() })
	}
	j, err := commit.Open(t.Context(), handles[0], journal.Declaration{Cluster: "blue"}, journal.DefaultConfig(), commit.Observer{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	crowd, other := w.crowd.Clone(), handles[1]
	if n := crowd.Write(t, j); n > 0 {
		t.Fatalf("%d of a sound file are refused", n)
	}
	number, cells, bit := pickLeaf(t, path+"-wal", rng)
	flip(t, path+"-wal", bit)
	shard := sharding.ShardID{Type: "Other"}
	if _, err := other.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 2}}}); err != nil && !strings.Contains(err.Error(), "damaged") {
		t.Fatal(err) // it emptied the caches
	}
	load, write := crowd.Load(t, other.Load), crowd.Write(t, j)
	t.Logf("page %d, bit %d: of %d entities %d were refused by loads and %d by appends", number, bit, journaltest.CrowdSize, load, write)
	if err := j.Err(); err != nil {
		t.Fatalf("the journal is broken: %v", err)
	}
	if found := damagedPages(handles[0].file); !strings.HasSuffix(found, fmt.Sprint(": ", number)) {
		t.Errorf("page %d was not found damaged, but: %q", number, found)
	}
	if max(load, write) > 3*cells {
		t.Errorf("the page holds %d rows", cells)
	}
	c := &handles[0].checkpoints
	if l, err := c.exec(c.restart); err != nil || l.busy || l.remaining() > 0 {
		t.Fatalf("the log is not copied: %+v, %v", l, err)
	}
	copied := crowd.Load(t, other.Load)
	if crowd.Write(t, j); j.Err() != nil || copied > 3*cells || copied < load {
		t.Errorf("%d were refused by loads, and %d when the log had been copied: %v", load, copied, j.Err())
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, b := range handles {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Open(context.Background(), path, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n := crowd.Load(t, again.Load); n != copied {
		t.Errorf("%d were refused by loads, and %d when the file was opened again", copied, n)
	}
}

// TestUnreadablePageOfTheLog: a page of the log that cannot be read is the only one that is
// not read.
func TestUnreadablePageOfTheLog(t *testing.T) {
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	write(t, d, sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "a"})
	info, err := os.Stat(d.file + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	var log uintptr
	shim.mu.Lock()
	for file, opened := range shim.files {
		if opened.main == d.file && at[lib.Tsqlite3_file](file).FpMethods == shim.log.ours {
			log = file
		}
	}
	shim.mu.Unlock()
	tls := libc.NewTLS()
	defer tls.Close()
	read := shim.log.read
	defer func() { shim.log.read = read }()
	frames := (info.Size() - logHeader) / (frameHeader + pageSize)
	if frames < 4 {
		t.Fatalf("%d frames", frames)
	}
	for bad := range frames {
		damaged := logHeader + bad*(frameHeader+pageSize) + frameHeader + 1000
		shim.log.read = func(tls *libc.TLS, file, buf uintptr, n int32, offset int64) int32 {
			if offset <= damaged && damaged < offset+int64(n) {
				return lib.SQLITE_IOERR_READ
			}
			return read(tls, file, buf, n, offset)
		}
		for frame := range frames {
			number, sound, rc := readFrame(tls, log, logHeader+frame*(frameHeader+pageSize), make([]byte, pageSize))
			if readable := rc == lib.SQLITE_OK && sound && number > 0; readable != (frame != bad) {
				t.Errorf("frame %d cannot be read; frame %d: page %d, sound %t, code %d", bad, frame, number, sound, rc)
			}
		}
	}
}

// pickLeaf picks a bit of a page in the log that holds rows, in its newest form.
func pickLeaf(t *testing.T, path string, rng *rand.Rand) (number uint32, cells, bit int) {
	t.Helper()
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	newest := map[uint32]int{}
	var numbers []uint32
	for at := logHeader; at+frameHeader+pageSize <= len(log); at += frameHeader + pageSize {
		n, page := binary.BigEndian.Uint32(log[at:]), log[at+frameHeader:]
		if _, ok := newest[n]; !ok && n > 1 && (page[0] == 10 || page[0] == 13) {
			numbers = append(numbers, n)
		}
		newest[n] = at + frameHeader
	}
	if len(numbers) == 0 {
		t.Fatalf("there is no page in a log of %d bytes", len(log))
	}
	number = numbers[rng.IntN(len(numbers))]
	at := newest[number]
	return number, int(binary.BigEndian.Uint16(log[at+3:])), at*8 + rng.IntN(pageSize*8)
}

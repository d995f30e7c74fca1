//go:build unix

package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// The tests of this file run this test binary again, as another process that
// plays the part named by the environment variable.
const partVar = "ROOST_JOURNAL_TEST_PART"

func TestMain(m *testing.M) {
	part := strings.Fields(os.Getenv(partVar))
	if len(part) == 0 {
		os.Exit(m.Run())
	}
	var err error
	switch part[0] {
	case "write":
		err = writeForever(part[1], part[2], part[3])
	case "limit":
		err = writeBeyondLimit(part[1])
	case "hold":
		err = holdWrites(part[1], part[2])
	default:
		err = fmt.Errorf("no part is called %q", part[0])
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func start(t *testing.T, part ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), partVar+"="+strings.Join(part, " "))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, bufio.NewScanner(out)
}

// entities is the number of entities of each writing process.
const entities = 8

// writeForever claims a shard and appends to its entities, one batch after the
// other, and prints what is durable: entity and sequence number. It continues
// from what it finds, and ends when its epoch is not the stored one any more.
func writeForever(path, index, at string) error {
	b, err := Open(context.Background(), path, journal.DefaultConfig())
	if err != nil {
		return err
	}
	ctx := context.Background()
	n, _ := strconv.Atoi(index)
	e, _ := strconv.Atoi(at)
	shard, epoch := sharding.ShardID{Type: "T", Index: uint32(n)}, sharding.Epoch(e)
	r, err := b.Commit(ctx, []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: epoch, Owner: sharding.NodeUID(e)}}})
	if err != nil || r[0].Verdict != sharding.Durable {
		return fmt.Errorf("claim: %v, %v", r, err)
	}
	var ids []sharding.Entity
	var next []uint64
	for i := range entities {
		ids = append(ids, sharding.Entity{Type: "T", ID: sharding.EntityID(fmt.Sprint(index, "-", i))})
		l, err := b.Load(ctx, journal.LoadRequest{Entity: ids[i]})
		if err != nil {
			return err
		}
		next = append(next, l.LastSeq+1)
	}
	for {
		var ops []journal.Op
		for i, id := range ids {
			ops = append(ops, journal.Op{Append: &sharding.Append{Shard: shard, Epoch: epoch, Entity: id, Records: []sharding.Record{{
				Seq: next[i], Command: sharding.CommandID(fmt.Sprint("c", next[i])),
				Events: []sharding.Event{{Name: "E", Payload: make([]byte, 100)}}}}}})
		}
		results, err := b.Commit(ctx, ops)
		if err != nil {
			return errors.Join(err, b.Close())
		}
		for i, r := range results {
			switch r.Verdict {
			case sharding.Durable:
				fmt.Println(ids[i].ID, next[i])
				next[i]++
			case sharding.RefusedEpoch:
				fmt.Println("fenced")
				return b.Close()
			default:
				return fmt.Errorf("%s: append %d is %v", ids[i], next[i], r.Verdict)
			}
		}
	}
}

// acked remembers what writers called durable.
type acked map[string]uint64

// read takes lines of a writer until n are read or it says something else,
// which is returned.
func (a acked) read(t *testing.T, lines *bufio.Scanner, n int) (other string) {
	t.Helper()
	for range n {
		if !lines.Scan() {
			return io.EOF.Error()
		}
		id, seq, ok := strings.Cut(lines.Text(), " ")
		last, err := strconv.ParseUint(seq, 10, 64)
		if !ok || err != nil {
			return lines.Text()
		}
		if last <= a[id] {
			t.Fatalf("%s %d was durable before, up to %d", id, last, a[id])
		}
		a[id] = last
	}
	return ""
}

// holdWrites gets as far on its way to a commit as state says, and stays there.
func holdWrites(path, state string) error {
	d, err := Open(context.Background(), path, journal.DefaultConfig())
	if err != nil {
		return err
	}
	switch state {
	case "queue-held":
		err = d.lock.queue.lock(context.Background())
	case "both-held":
		err = d.LockWrites(context.Background())
	case "in-transaction":
		err = d.beginWrite(context.Background())
	default:
		err = fmt.Errorf("no state is called %q", state)
	}
	if err != nil {
		return err
	}
	fmt.Println("holds")
	time.Sleep(time.Minute) // until it is killed
	return nil
}

// TestHolderOfTheWriteLock: a writer that is paused in a transaction keeps others from writing until it is killed. One that is
// paused before that does not keep them for long.
func TestHolderOfTheWriteLock(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"queue-held", "both-held", "in-transaction"} {
		t.Run(state, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "j.db")
			d := openBackend(t, path)
			claim := []journal.Op{{Claim: &sharding.Claim{Shard: benchShard, Epoch: 1, Owner: 1}}}
			cmd, lines := start(t, "hold", path, state)
			if !lines.Scan() || lines.Text() != "holds" {
				t.Fatalf("the other process says %q", lines.Text())
			}
			must(t, cmd.Process.Signal(syscall.SIGSTOP))
			d.lock.patience = time.Millisecond
			if state == "in-transaction" {
				short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if _, err := d.Commit(short, claim); !errors.Is(err, journal.ErrNotCommitted) {
					t.Errorf("during a transaction of a paused writer: %v, want ErrNotCommitted", err)
				}
			} else if _, err := d.Commit(t.Context(), claim); err != nil {
				t.Errorf("with a paused writer: %v", err)
			}
			must(t, cmd.Process.Kill())
			if _, err := d.Commit(t.Context(), claim); err != nil {
				t.Errorf("after its end: %v", err)
			}
		})
	}
}

// TestWriterOfAnEarlierRelease: a process that knows no file of the active writer takes the lock of the queue, waits with it for
// SQLite's lock, and releases it then. It and a writer of this release wait for each other.
func TestWriterOfAnEarlierRelease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	d, earlier := openBackend(t, path), openBackend(t, path)
	claim := []journal.Op{{Claim: &sharding.Claim{Shard: benchShard, Epoch: 1, Owner: 1}}}
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	must(t, earlier.lock.queue.lock(t.Context()))
	must(t, earlier.write.begin.Exec())
	earlier.lock.queue.unlock()
	if _, err := d.Commit(short(), claim); !errors.Is(err, journal.ErrNotCommitted) {
		t.Errorf("during a transaction of the earlier one: %v, want ErrNotCommitted", err)
	}
	must(t, earlier.write.commit.Exec())
	must(t, d.LockWrites(t.Context()))
	if err := earlier.lock.queue.lock(short()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the earlier one begins between the lock and the transaction of this one: %v", err)
	}
	_, err := d.Commit(t.Context(), claim)
	must(t, err)
	must(t, earlier.lock.queue.lock(t.Context()))
	must(t, earlier.write.begin.Exec())
	must(t, earlier.write.rollback.Exec())
}

// TestKilledWriters lets three processes write into one file, kills each with
// SIGKILL in the middle, fences one that lives, and looks for everything that
// was called durable.
func TestKilledWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	all := acked{}
	var cmds []*exec.Cmd
	var outs []*bufio.Scanner
	for i := range 3 {
		cmd, out := start(t, "write", path, strconv.Itoa(i), "1")
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	for round := range 6 {
		victim := round % 3
		for i, out := range outs {
			if other := all.read(t, out, 160); other != "" {
				t.Fatalf("round %d: writer %d says %q", round, i, other)
			}
		}
		if round%2 == 0 {
			if err := cmds[victim].Process.Kill(); err != nil {
				t.Fatal(err)
			}
			all.read(t, outs[victim], 1<<30) // what it had said before it died
			_ = cmds[victim].Wait()
			cmds[victim], outs[victim] = start(t, "write", path, strconv.Itoa(victim), strconv.Itoa(round+2))
			continue
		}
		// A successor fences the one that still lives.
		old, out := cmds[victim], outs[victim]
		cmds[victim], outs[victim] = start(t, "write", path, strconv.Itoa(victim), strconv.Itoa(round+2))
		if other := all.read(t, out, 1<<30); other != "fenced" {
			t.Fatalf("round %d: the old writer says %q", round, other)
		}
		_ = old.Wait()
	}
	for i, cmd := range cmds {
		_ = cmd.Process.Kill()
		all.read(t, outs[i], 1<<30)
		_ = cmd.Wait()
	}
	all.check(t, path)
	if len(all) != 3*entities {
		t.Errorf("%d entities have written", len(all))
	}
}

// TestRemovedLogOfProcesses removes the log while two processes write: both end, and what was called durable is there.
func TestRemovedLogOfProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	all := acked{}
	var cmds []*exec.Cmd
	var outs []*bufio.Scanner
	for i := range 2 {
		cmd, out := start(t, "write", path, strconv.Itoa(i), "1")
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	for i, out := range outs {
		if other := all.read(t, out, 160); other != "" {
			t.Fatalf("writer %d says %q", i, other)
		}
	}
	must(t, errors.Join(os.Remove(path+logSuffix), os.Remove(path+sharedSuffix)))
	for i, out := range outs {
		if other := all.read(t, out, 1<<30); !strings.Contains(other, "A removed log") {
			t.Errorf("writer %d says %q", i, other)
		}
	}
	for _, cmd := range cmds {
		_ = cmd.Wait()
	}
	all.check(t, path)
}

// check looks for everything that was called durable, when no process writes any more.
func (a acked) check(t *testing.T, path string) {
	t.Helper()
	b, err := Open(context.Background(), path, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for id, last := range a {
		l, err := b.Load(t.Context(), journal.LoadRequest{Entity: sharding.Entity{Type: "T", ID: sharding.EntityID(id)}})
		if err != nil {
			t.Fatal(err)
		}
		// One more may be stored whose writer died before it could say so, per
		// life of a writer at the end of it; less is a loss.
		if l.LastSeq < last || l.LastSeq > last+1 || uint64(len(l.Records)) != l.LastSeq {
			t.Errorf("%s: record %d was durable, %d are stored, the last one is %d", id, last, len(l.Records), l.LastSeq)
		}
	}
	var result string
	if err := b.conn.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&result); err != nil || result != "ok" {
		t.Errorf("integrity check: %s, %v", result, err)
	}
}

// TestFailedWriteAtCommit lets the operating system refuse a write in the
// middle of a commit: the store must declare itself broken.
func TestFailedWriteAtCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	cmd, out := start(t, "limit", path)
	var said []string
	for out.Scan() {
		said = append(said, out.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %q", err, said)
	}
	b, err := Open(context.Background(), path, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l, err := b.Load(t.Context(), journal.LoadRequest{Entity: limited})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint("stored ", l.LastSeq); len(said) != 1 || said[0] != got {
		t.Errorf("the writer says %q, the next process finds %q", said, got)
	}
}

var limited = sharding.Entity{Type: "T", ID: "limited"}

func writeBeyondLimit(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	b, err := Open(context.Background(), path, journal.DefaultConfig())
	if err != nil {
		return err
	}
	ctx, shard := context.Background(), sharding.ShardID{Type: "T"}
	if _, err := b.Commit(ctx, []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}}}); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 19, Max: 1 << 19}); err != nil {
		return err
	}
	for seq := uint64(1); seq < 100; seq++ {
		op := journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: limited,
			Records: []sharding.Record{{Seq: seq, Events: []sharding.Event{{Name: "E", Payload: make([]byte, 50_000)}}}}}}
		_, err := b.Commit(ctx, []journal.Op{op})
		if err == nil {
			continue
		}
		if !errors.Is(err, journal.ErrBroken) {
			return fmt.Errorf("a failed write gives: %w", err)
		}
		if _, err = b.Commit(ctx, []journal.Op{{Fence: &sharding.ReadFence{Shard: shard, Epoch: 1}}}); !errors.Is(err, journal.ErrBroken) {
			return fmt.Errorf("a broken store continues: %w", err)
		}
		fmt.Println("stored", seq-1)
		return nil
	}
	return errors.New("no write failed")
}

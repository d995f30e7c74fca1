package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// uuid7 is an idempotency key with a time, as clients make them.
func uuid7(at time.Time, n int) string {
	ms := at.UnixMilli()
	return fmt.Sprintf("%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, n)
}

const (
	// boxPadding is the size of an event.
	boxPadding = 1024
)

// playDeletion deletes nine of ten entities with many events. Repeats get their first answers
// while keys are remembered, and have no effect afterwards; the space comes back.
func playDeletion(l *livingRun) {
	const boxes, puts, eventsPerPut = 10_000, 5, 20 // a million events
	file := filepath.Join(l.dir, "journal.db")
	put := map[string]any{"events": eventsPerPut, "size": boxPadding}
	key := func(at time.Time, box, n int) string { return uuid7(at, box*100+n) }
	began := time.Now()
	const perBatch = 100
	for n := range puts {
		l.each(boxes/perBatch, 8, func(i int) error {
			var batch []command
			for box := i * perBatch; box < (i+1)*perBatch; box++ {
				batch = append(batch, command{"Box", fmt.Sprint("b", box), "Put", key(began, box, n), put})
			}
			return l.batch(batch)
		})
	}
	wrote := time.Since(began)
	peak := l.size(file)
	const left = boxes / 10
	ended := time.Now()
	end := func(box int) (int64, error) {
		return l.count(fmt.Sprintf("/v1/Box/b%d/End", box), key(ended, box, 99), struct{}{})
	}
	l.each(boxes-left, 32, func(i int) error {
		n, err := end(left + i)
		if err == nil && n != puts*eventsPerPut {
			err = fmt.Errorf("b%d had %d events when it was deleted, want %d", left+i, n, puts*eventsPerPut)
		}
		return err
	})
	peak = max(peak, l.size(file))
	// While keys are remembered, a repeat of the delete and of an older command gets the first
	// answer.
	recent := boxes - 20 // deleted last
	l.each(20, 4, func(i int) error {
		if n, err := end(recent + i); err != nil || n != puts*eventsPerPut {
			return fmt.Errorf("the repeat of a delete: %d, %w", n, err)
		}
		n, err := l.count(fmt.Sprintf("/v1/Box/b%d/Put", recent+i), key(ended.Add(-time.Second), recent+i, 50), put)
		if err != nil || n != eventsPerPut {
			return fmt.Errorf("a new life begins with %d events, want %d: %w", n, eventsPerPut, err)
		}
		n, err = end(recent + i) // of the life before
		if err != nil || n != puts*eventsPerPut {
			return fmt.Errorf("the repeat of a delete in the next life: %d, %w", n, err)
		}
		return nil
	})
	remembered := l.size(file)
	// Both regions purge, each its shards. Then shards change places, and new entities are made
	// where others were purged.
	began = time.Now()
	eventually(l.T, 8*waitLimit, func() error {
		if n := l.number("SELECT count(*) FROM entity WHERE type = 'Box'"); n > left+20 {
			return fmt.Errorf("%d boxes are in the journal", n)
		}
		return nil
	})
	purged := time.Since(began)
	for _, box := range []int{left, left + 1, boxes/2 + 1, boxes - 21} {
		for path, at := range map[string]string{"End": key(ended, box, 99), "Put": key(ended.Add(-time.Second), box, 60)} {
			var in any = struct{}{}
			if path == "Put" {
				in = put
			}
			_, refused, err := l.post(l.Context(), fmt.Sprintf("/v1/Box/b%d/%s", box, path), at, in, 10*time.Second)
			if err != nil || refused == nil || refused.Meta.Outcome != "unknown" || refused.Meta.Error != "ROOST-1103" {
				l.Errorf("%s of b%d with an old key: %+v, %v; want the answer that it has expired", path, box, refused, err)
			}
		}
	}
	drain(l.T, l.cluster, "region-1")
	drain(l.T, l.cluster, "region-2")
	l.each(200, 8, func(i int) error {
		id := fmt.Sprint("b", left+i) // as it was called before
		if i%2 == 0 {
			id = fmt.Sprint("new-", i)
		}
		n, err := l.count("/v1/Box/"+id+"/Put", uuid7(time.Now(), 1_000_000_000+i), put)
		if err == nil && n != eventsPerPut {
			err = fmt.Errorf("%s is new and has %d events, want %d", id, n, eventsPerPut)
		}
		return err
	})
	settled := int64(0)
	eventually(l.T, waitLimit, func() error {
		if settled = l.size(file); settled > peak/4 {
			return fmt.Errorf("the file has %d bytes, a quarter of its peak is %d", settled, peak/4)
		}
		return nil
	})
	events, counts := 0, map[string]int64{}
	l.events("Box", func(d done) {
		events++
		counts[d.entity]++
		if d.What != d.entity || d.N != counts[d.entity] || len(d.Pad) != boxPadding {
			l.Errorf("event %d of %s is event %d of %s", counts[d.entity], d.entity, d.N, d.What)
		}
	})
	if want := left*puts*eventsPerPut + 220*eventsPerPut; events != want {
		l.Errorf("%d events are in the journal, want %d", events, want)
	}
	l.figure("%d events in %.0f s, file %d MiB at its peak, %d MiB while the deletes were remembered, %d MiB (%d %%) when they were purged after %.0f s, %d repeats",
		boxes*puts*eventsPerPut, wrote.Seconds(), peak>>20, remembered>>20, settled>>20, settled*100/peak, purged.Seconds(), l.repeats.Load())
}

// size returns the length of the journal's file.
func (l *livingRun) size(file string) int64 {
	l.Helper()
	info, err := os.Stat(file)
	l.must(err)
	return info.Size()
}

package history

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Restored splits the history of lists whose journal was lost at a moment, and restored from a backup
// that has the values kept. Before that moment every process that could answer from the old journal was stopped.
// The histories of the two journals are checked for themselves:
//
//   - before: what was called before the moment. What was answered later is in doubt.
//   - after: what was called later, after the kept additions. An Add that was called before,
//     and is not kept, may have been sent again, and take effect as if it were new.
//
// A Peek that was called until settled is not in after: until an old owner notices that its journal
// is gone, it may show what is lost.
func Restored(ops []Op, lost, settled time.Duration, kept map[string][]int64) (before, after []Op) {
	there := map[int64]bool{}
	for list, values := range kept {
		var hash uint64
		for i, v := range values {
			there[v], hash = true, Hash(hash, v)
			at := time.Duration(2 * i)
			after = append(after, Op{List: list, Kind: Add, Value: v, Call: at, Return: at + 1, Outcome: Executed, Reply: Reply{int64(i + 1), hash}})
		}
	}
	for _, o := range ops {
		if o.Call >= lost {
			if o.Kind != Peek || o.Call >= settled {
				after = append(after, o)
			}
			continue
		}
		same := !slices.ContainsFunc(o.Repeats, func(r Reply) bool { return r != o.Reply })
		if o.Outcome != NotApplied && (o.Return >= lost || !same) {
			o.Outcome = Unknown
		}
		o.Repeats = nil // perhaps of the other journal
		before = append(before, o)
		if o.Kind == Add && !there[o.Value] {
			if o.Outcome != NotApplied {
				o.Outcome = Unknown
			}
			after = append(after, o)
		}
	}
	return before, after
}

// CheckKept checks what a backup has kept of lists, given what the journal had of them in the end. The
// backup began and ended at two moments of the history. Whatever was answered before it began is in
// it, nothing is that was called after it had ended, and it is as of one moment.
func CheckKept(ops []Op, began, ended time.Duration, kept, whole map[string][]int64) error {
	var findings []error
	there := map[int64]bool{}
	for list, values := range kept {
		if w := whole[list]; len(values) > len(w) || !slices.Equal(values, w[:len(values)]) {
			findings = append(findings, fmt.Errorf("another list: of %s the backup has %v, and the journal had %v", list, values, w))
		}
		for _, v := range values {
			there[v] = true
		}
	}
	var first, last *Op // the first one that is missing to return, and the last one that is there to be called
	for i := range ops {
		o := &ops[i]
		switch {
		case o.Kind != Add:
		case !there[o.Value] && o.Outcome == Executed && (first == nil || o.Return < first.Return):
			first = o
		case there[o.Value] && (last == nil || o.Call > last.Call):
			last = o
		}
	}
	if first != nil && first.Return < began {
		findings = append(findings, fmt.Errorf("lost: %v was answered before the backup began at %v", first, began))
	}
	if last != nil && last.Call > ended {
		findings = append(findings, fmt.Errorf("invented: %v was called after the backup had ended at %v", last, ended))
	}
	if first != nil && last != nil && first.Return < last.Call {
		findings = append(findings, fmt.Errorf("not one moment: %v is missing, and %v, which was called later, is there", first, last))
	}
	return errors.Join(findings...)
}

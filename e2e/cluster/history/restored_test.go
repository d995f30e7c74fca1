package history

import (
	"strings"
	"testing"
	"time"
)

// addAt is an Add of the list "l", answered as the nth value.
func addAt(value int64, call, ret time.Duration, before ...int64) Op {
	var hash uint64
	for _, v := range before {
		hash = Hash(hash, v)
	}
	return Op{List: "l", Kind: Add, Value: value, Call: call, Return: ret, Outcome: Executed, Reply: Reply{int64(len(before) + 1), Hash(hash, value)}}
}

// TestRestored: a lost value is not a violation if it was not in the backup, and any other fault is
// noticed, on both sides of the restore.
func TestRestored(t *testing.T) {
	const lost, settled = 50, 70
	kept := map[string][]int64{"l": {1, 2}}
	old := []Op{addAt(1, 10, 11), addAt(2, 20, 21, 1), addAt(3, 30, 31, 1, 2), addAt(4, 49, 90, 1, 2, 5)}
	for name, test := range map[string]struct {
		later         []Op
		before, after []int64 // final
		wrong         string  // in the history after the restore
	}{
		"one is lost":               {[]Op{addAt(5, 60, 61, 1, 2)}, []int64{1, 2, 3}, []int64{1, 2, 5}, ""},
		"one runs again":            {[]Op{addAt(5, 60, 61, 1, 2)}, []int64{1, 2, 3, 4}, []int64{1, 2, 5, 4}, ""},
		"what was kept is gone":     {[]Op{addAt(5, 60, 61, 1)}, []int64{1, 2, 3}, []int64{1, 5}, "lost"},
		"an effect of an old owner": {[]Op{addAt(5, 60, 61, 1, 2, 3)}, []int64{1, 2, 3}, []int64{1, 2, 5}, "moved"},
		"an old state is read":      {[]Op{{List: "l", Kind: Get, Call: 60, Return: 61, Outcome: Executed, Reply: old[2].Reply}}, []int64{1, 2, 3}, []int64{1, 2}, "lost"},
		"an old state is peeked":    {[]Op{{List: "l", Kind: Peek, Call: 60, Return: 61, Outcome: Executed, Reply: old[2].Reply}}, []int64{1, 2, 3}, []int64{1, 2}, ""},
		"and peeked later":          {[]Op{{List: "l", Kind: Peek, Call: 75, Return: 76, Outcome: Executed, Reply: old[2].Reply}}, []int64{1, 2, 3}, []int64{1, 2}, "lost"},
	} {
		before, after := Restored(append(old[:len(old):len(old)], test.later...), lost, settled, kept)
		if err := Check(before, map[string][]int64{"l": test.before}, time.Minute); err != nil {
			t.Errorf("%s: before: %v", name, err)
		}
		err := Check(after, map[string][]int64{"l": test.after}, time.Minute)
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%s: after: %v, want %q", name, err, test.wrong)
		}
	}
}

// TestCheckKept: a backup that lacks something, or has something of another moment, is noticed.
func TestCheckKept(t *testing.T) {
	ops := []Op{addAt(1, 10, 11), addAt(2, 20, 25, 1), addAt(3, 22, 31, 1, 2), addAt(4, 40, 41, 1, 2, 3)}
	whole := map[string][]int64{"l": {1, 2, 3, 4}}
	for _, test := range []struct {
		kept         []int64
		began, ended time.Duration
		wrong        string
	}{
		{[]int64{1, 2}, 24, 30, ""},
		{[]int64{1}, 24, 30, ""},
		{[]int64{1}, 26, 30, "lost: "},
		{[]int64{1, 2, 3, 4}, 24, 30, "invented: "},
		{[]int64{1, 2, 4}, 24, 50, "not one moment: "},
		{[]int64{1, 3}, 24, 30, "another list: "},
	} {
		err := CheckKept(ops, test.began, test.ended, map[string][]int64{"l": test.kept}, whole)
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

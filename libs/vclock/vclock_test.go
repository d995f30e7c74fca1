package vclock

import (
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func fromMap(m map[string]uint64) Clock[string] {
	var c Clock[string]
	for k, v := range m {
		c = append(c, Entry[string]{k, v})
	}
	slices.SortFunc(c, func(a, b Entry[string]) int {
		if a.Node < b.Node {
			return -1
		}
		return 1
	})
	return c
}

type vector struct {
	ID, Kind, Name        string
	Left, Right, Merged   map[string]uint64
	Relation              string
	RelationLeftToMerged  string `json:"relation_left_to_merged"`
	RelationRightToMerged string `json:"relation_right_to_merged"`
	Steps, Expect         [][]string
}

func TestVectors(t *testing.T) {
	for _, c := range archtest.Vectors(t, "vclock.json") {
		t.Run(c.Name, func(t *testing.T) {
			var v vector
			c.Decode(t, &v)
			runVector(t, v)
		})
	}
}

func runVector(t *testing.T, v vector) {
	l, r := fromMap(v.Left), fromMap(v.Right)
	switch v.Kind {
	case "compare":
		if got := l.Compare(r).String(); got != v.Relation {
			t.Errorf("%s: got %s, want %s", v.Name, got, v.Relation)
		}
	case "merge":
		want := fromMap(v.Merged)
		if got := l.Merge(r); got.Compare(want) != Same {
			t.Errorf("%s: got %v, want %v", v.Name, got, want)
		}
		if got := r.Merge(l); got.Compare(want) != Same {
			t.Errorf("%s: other way round: got %v, want %v", v.Name, got, want)
		}
		if got := l.Compare(want).String(); got != v.RelationLeftToMerged {
			t.Errorf("%s: left to merged is %s", v.Name, got)
		}
		if got := r.Compare(want).String(); got != v.RelationRightToMerged {
			t.Errorf("%s: right to merged is %s", v.Name, got)
		}
	case "program":
		runProgram(t, v)
	default:
		t.Fatalf("unknown kind %q", v.Kind)
	}
}

func runProgram(t *testing.T, v vector) {
	reg := map[string]Clock[string]{}
	for _, s := range v.Steps {
		switch s[0] {
		case "inc":
			reg[s[1]] = reg[s[1]].Tick(s[2])
		case "merge":
			reg[s[1]] = reg[s[2]].Merge(reg[s[3]])
		case "prune":
			reg[s[1]] = reg[s[2]].Prune(s[3])
		case "copy":
			reg[s[1]] = reg[s[2]]
		default:
			t.Fatalf("unknown step %v", s)
		}
	}
	for _, e := range v.Expect {
		switch e[0] {
		case "relation":
			if got := reg[e[1]].Compare(reg[e[2]]).String(); got != e[3] {
				t.Errorf("%v: got %s", e, got)
			}
		case "lacks":
			if n := reg[e[1]].Count(e[2]); n != 0 {
				t.Errorf("%v: the entry is %d", e, n)
			}
		default:
			t.Fatalf("unknown expectation %v", e)
		}
	}
}

func TestOperandsStayAlone(t *testing.T) {
	a := Clock[string]{}.Tick("a").Tick("b")
	b := a.Tick("a")
	if c := b.Prune("b"); a.Count("a") != 1 || b.Count("b") != 1 || c.Count("b") != 0 {
		t.Errorf("clocks share memory: %v %v %v", a, b, c)
	}
}

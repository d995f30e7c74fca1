package backup

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

func write(t *testing.T, parts ...[]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Store: SQLite, Taken: time.Unix(5, 0), Facts: journal.NewFacts(7)})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range parts {
		if err := w.Part(fmt.Sprint("part ", i)); err != nil {
			t.Fatal(err)
		}
		if n, err := w.Write(p); err != nil || n != len(p) {
			t.Fatal(n, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestParts: parts come back as they were written, also if a part is not read, or only a bit of it.
func TestParts(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), chunkBytes/4)
	file := write(t, long, nil, []byte("short"))
	for _, read := range []int{-1, 0, 1} { // all, nothing, and a byte of each part
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if h := r.Header(); h.Store != SQLite || !h.Taken.Equal(time.Unix(5, 0)) || h.Facts.Generation != 7 || h.Facts.Format != journal.Format {
			t.Errorf("header: %+v", h)
		}
		for i, want := range [][]byte{long, nil, []byte("short")} {
			name, err := r.Next()
			if err != nil || name != fmt.Sprint("part ", i) {
				t.Fatalf("part %d: %q, %v", i, name, err)
			}
			switch read {
			case -1:
				if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
					t.Errorf("part %d: %d bytes, want %d: %v", i, len(got), len(want), err)
				}
			case 1:
				if b := make([]byte, 1); len(want) > 0 {
					if _, err := io.ReadFull(r, b); err != nil || b[0] != want[0] {
						t.Errorf("part %d begins with %q: %v", i, b, err)
					}
				}
			}
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) || r.Err() != nil {
			t.Errorf("after the last part: %v", err)
		}
	}
}

// TestDamage: no flipped bit, no missing or additional piece and no exchanged chunk goes unnoticed.
func TestDamage(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	whole := write(t, bytes.Repeat([]byte("a"), 3000), []byte("b"))
	check := func(what string, file []byte) {
		t.Helper()
		if _, _, err := Check(bytes.NewReader(file)); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
			t.Fatalf("seed %d: %s: %v", seed, what, err)
		}
	}
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 1 << rng.IntN(8)
		check(fmt.Sprint("a flipped bit of byte ", i), bad)
		check(fmt.Sprint("cut off at ", i), whole[:i])
	}
	check("more", append(bytes.Clone(whole), 'x'))
	check("twice", append(bytes.Clone(whole), whole...))
	other := write(t, bytes.Repeat([]byte("c"), 3000), []byte("b"))
	check("put together from two", append(bytes.Clone(whole[:len(whole)-200]), other[len(other)-200:]...))
	if _, _, err := Check(bytes.NewReader(whole)); err != nil {
		t.Error(err)
	}
}

// TestLaterVersion: a file of a later format is refused by its version, whatever follows.
func TestLaterVersion(t *testing.T) {
	file := write(t)
	file[len(magic)+3] = Version + 1
	if _, err := NewReader(bytes.NewReader(file)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "version 2") {
		t.Error(err)
	}
}

// earlier is a backup that a development version wrote before the formats began again at 1.
//
//go:embed testdata/earlier.backup.gz
var earlier []byte

// TestUnmarked: a backup without the mark is refused with the reason, although it has version 1 and format 1.
func TestUnmarked(t *testing.T) {
	in, err := gzip.NewReader(bytes.NewReader(earlier))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewReader(in); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "before the formats began again at 1") {
		t.Error(err)
	}
}

// fake is a database with one part.
type fake struct {
	number  int
	content string
}

func (f fake) Header() Header {
	return Header{Store: SQLite, Taken: time.Unix(int64(f.number), 0), Facts: journal.NewFacts(7), Number: f.number}
}
func (f fake) Size() int64  { return int64(len(f.content)) }
func (f fake) Close() error { return nil }

func (f fake) WriteParts(_ context.Context, w *Writer, progress func(int64)) error {
	if err := w.Part("content"); err != nil {
		return err
	}
	_, err := io.WriteString(w, f.content)
	progress(f.Size())
	return err
}

// TestSeveral: a file of several databases marks the database of each part, and damage is noticed.
func TestSeveral(t *testing.T) {
	contents := map[int]string{1: "of the first", 2: "", 5: "of the fifth"}
	var out bytes.Buffer
	var done, total int64
	headers, err := Write(t.Context(), &out, []Source{fake{1, contents[1]}, fake{2, contents[2]}, fake{5, contents[5]}}, func(d, t int64) { done, total = d, t })
	if err != nil || len(headers) != 3 || done != 24 || total != 24 {
		t.Fatalf("%+v, %d of %d: %v", headers, done, total, err)
	}
	file := out.Bytes()
	r, err := NewReader(bytes.NewReader(file))
	for _, number := range []int{1, 2, 5} {
		if err != nil || r.Header().Number != number || r.Header().Databases != 3 || !r.Header().Taken.Equal(time.Unix(int64(number), 0)) {
			t.Fatalf("database %d: %+v, %v", number, r.Header(), err)
		}
		name, err2 := r.Next()
		got, err3 := io.ReadAll(r)
		if _, end := r.Next(); name != "content" || string(got) != contents[number] || err2 != nil || err3 != nil || !errors.Is(end, io.EOF) {
			t.Fatalf("database %d: part %q has %q: %v, %v, %v", number, name, got, err2, err3, end)
		}
		err = r.Database()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("after the last one: %v", err)
	}
	if all, _, err := Check(bytes.NewReader(file)); err != nil || len(all) != 3 || all[2].Number != 5 {
		t.Errorf("checked: %+v, %v", all, err)
	}
	for i := range file {
		if _, _, err := Check(bytes.NewReader(file[:i])); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
			t.Fatalf("cut off at %d: %v", i, err)
		}
		bad := bytes.Clone(file)
		bad[i] ^= 4
		if _, _, err := Check(bytes.NewReader(bad)); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
			t.Fatalf("a flipped bit of byte %d: %v", i, err)
		}
	}
	out.Reset()
	short, err := NewWriter(&out, Header{Databases: 2})
	if err != nil || short.Close() != nil {
		t.Fatal(err)
	}
	if _, _, err := Check(bytes.NewReader(out.Bytes())); !errors.Is(err, ErrDamaged) {
		t.Errorf("one of two databases: %v", err)
	}
}

// TestPlan: what must not be replaced is not.
func TestPlan(t *testing.T) {
	facts := journal.NewFacts(7)
	facts.Cluster, facts.MaxEpoch = "blue", sharding.MakeEpoch(3, 9)
	h := Header{Store: SQLite, Facts: facts}
	green, later, newer := facts, facts, facts
	green.Cluster = "green"
	later.MaxEpoch = sharding.MakeEpoch(5, 1)
	newer.MinWriter = journal.Format + 1
	all := Options{Replace: true, InUse: true}
	for name, test := range map[string]struct {
		h    Header
		t    Target
		o    Options
		says string // empty: restored
		term sharding.Term
	}{
		"nothing there":            {h, Target{}, Options{}, "", 3 + journal.RestoreTerms},
		"empty journal":            {h, Target{Facts: journal.NewFacts(8)}, Options{}, "", 3 + journal.RestoreTerms},
		"something stored":         {h, Target{Facts: later, Stored: true}, Options{InUse: true}, "--replace", 0},
		"something stored, told":   {h, Target{Facts: later, Stored: true}, Options{Replace: true}, "", 5 + journal.RestoreTerms},
		"damaged":                  {h, Target{Stored: true, Damage: errors.New("page 7")}, Options{}, "page 7", 0},
		"damaged, told":            {h, Target{Stored: true, Damage: errors.New("page 7")}, Options{Replace: true}, "", 3 + journal.RestoreTerms},
		"in use":                   {h, Target{Users: []string{"region"}}, Options{Replace: true}, "region", 0},
		"in use, told":             {h, Target{Users: []string{"region"}}, Options{InUse: true}, "", 3 + journal.RestoreTerms},
		"of another cluster":       {h, Target{Facts: green, Stored: true}, all, `"green"`, 0},
		"a backup of a later form": {Header{Store: SQLite, Facts: newer}, Target{}, all, "activated", 0},
	} {
		r, fence, err := Plan(test.h, test.t, test.o, 99)
		if (test.says == "") != (err == nil) || err != nil && (!errors.Is(err, journal.ErrIdentity) && !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v, want an error with %q", name, err, test.says)
		}
		if err == nil && (fence.Epoch.Term() != test.term || r.NextTerm() != test.term+1 || r.Facts.Generation != 99) {
			t.Errorf("%s: %+v, fence %v; want term %d", name, r, fence, test.term)
		}
	}
}

package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func sample() *Report {
	r := &Report{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Machine: Machine{CPU: "test", Cores: 2}, Rounds: 3, Length: time.Second, Rows: []Row{
		{Section: "link", Measure: "ask <1>", Unit: "asks/s", Value: 123456, P99: 900 * time.Microsecond,
			Baseline: &Baseline{Name: "entity mux", Value: 200000, Ratio: 0.617}, Target: Target{Ratio: 0.5, P99: time.Millisecond}},
		{Section: "memory", Measure: "idle entity", Unit: "bytes", Value: 400, Target: Target{AtMost: 350}},
	}}
	for i := range r.Rows {
		r.Rows[i].Judge()
	}
	return r
}

func TestRowsAreJudged(t *testing.T) {
	base := &Baseline{Ratio: 0.6}
	for _, tc := range []struct {
		row Row
		met string
	}{
		{Row{Value: 1}, "nothing asked"},
		{Row{Baseline: base, Target: Target{Ratio: 0.6}}, "yes"},
		{Row{Baseline: base, Target: Target{Ratio: 0.7}}, "no"},
		{Row{Target: Target{Ratio: 0.1}}, "no"},
		{Row{Value: 10, Target: Target{AtLeast: 10}}, "yes"},
		{Row{Value: 9, Target: Target{AtLeast: 10}}, "no"},
		{Row{Value: 11, Target: Target{AtMost: 10}}, "no"},
		{Row{Target: Target{None: true}}, "yes"},
		{Row{Value: 1, Target: Target{None: true}}, "no"},
		{Row{P99: 2, Target: Target{P99: 1}}, "no"},
		{Row{Target: Target{P99: 1}}, "no"},
	} {
		tc.row.Judge()
		got := "nothing asked"
		if m := tc.row.Met; m != nil && *m {
			got = "yes"
		} else if m != nil {
			got = "no"
		}
		if got != tc.met {
			t.Errorf("%+v: %s, want %s", tc.row, got, tc.met)
		}
	}
}

func TestNumbersAreReadable(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.1234: "0.123", 12.34: "12.3", 123.4: "123", 1234567: "1,230,000", 999999: "1,000,000"} {
		if got := Number(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "", 12: "12 ns", 1234: "1.23 µs", 12345678: "12.3 ms", 90 * time.Second: "90 s"} {
		if got := Duration(d); got != want {
			t.Errorf("%d is %s, want %s", d, got, want)
		}
	}
}

func TestReportIsWritten(t *testing.T) {
	r := sample()
	var table, chart, raw bytes.Buffer
	if err := errors.Join(r.Table(&table), r.Chart(&chart), r.JSON(&raw)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"LINK", "ask <1>", "123,000 asks/s", "entity mux", "0.62", "≥ 0.5 × baseline, p99 ≤ 1 ms: met", "≤ 350: missed"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	for d := xml.NewDecoder(&chart); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("the chart is not XML: %v", err)
		}
	}
	var again Report
	if err := json.Unmarshal(raw.Bytes(), &again); err != nil || len(again.Rows) != 2 || again.Rows[0].Baseline.Ratio != 0.617 {
		t.Errorf("read back %+v, %v", again, err)
	}
}

// TestLongBarsAreCut: a row that is many times as fast as its baseline does not make all other bars short. Its bar is cut,
// and says so; a target beyond the end has no mark.
func TestLongBarsAreCut(t *testing.T) {
	bar := regexp.MustCompile(`class="bar" x="\d+" y="\d+" width="(\d+)"`)
	for _, c := range []struct {
		ratio, target float64
		cut           bool
		goals         int
	}{{0.5, 0.8, false, 1}, {1.9, 0.8, false, 1}, {12, 10, true, 0}, {12, 1.5, true, 1}} {
		var chart bytes.Buffer
		r := Report{Rows: []Row{
			{Measure: "short", Baseline: &Baseline{Ratio: 0.5}}, {Measure: "other", Baseline: &Baseline{Ratio: c.ratio}, Target: Target{Ratio: c.target}},
		}}
		if err := r.Chart(&chart); err != nil {
			t.Fatal(err)
		}
		bars, text := bar.FindAllStringSubmatch(chart.String(), -1), chart.String()
		width, _ := strconv.Atoi(bars[0][1])
		if least := barsWidth / 4; width < least || strings.Contains(text, "»") != c.cut || strings.Count(text, `class="goal"`) != c.goals {
			t.Errorf("with a ratio of %v, half of the baseline is %d wide of %d; want %t cut, %d goals:\n%s", c.ratio, width, barsWidth, c.cut, c.goals, text)
		}
	}
}

func TestBusyMachineIsTold(t *testing.T) {
	r := sample()
	for load, want := range map[string]bool{"1.99": false, "2.01": true, "unknown": false} {
		r.Machine.Load = load
		var table bytes.Buffer
		if err := r.Table(&table); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(table.String(), busy) != want || strings.Contains(r.Markdown(), busy) != want {
			t.Errorf("load %s: told %t", load, !want)
		}
	}
}

func TestPageIsRewritten(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+begin+"\nold\n"+end+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := sample().Rewrite(page); err != nil {
			t.Fatal(err)
		}
	}
	raw, _ := os.ReadFile(page)
	got := string(raw)
	if !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "\nafter\n") || strings.Contains(got, "old") || strings.Count(got, "| ask <1> |") != 1 {
		t.Errorf("the page is\n%s", got)
	}
	if err := os.WriteFile(page, []byte("no marks"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sample().Rewrite(page); err == nil {
		t.Error("a page without marks was taken")
	}
}

func TestSectionIsRewrittenAlone(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	place := func(name string) string {
		return "<!-- " + name + ": begin, written by make bench-faults -->\nold " + name + "\n<!-- " + name + ": end -->\n"
	}
	if err := os.WriteFile(page, []byte(place("link")+place("memory")), 0o644); err != nil {
		t.Fatal(err)
	}
	r := sample()
	r.Rows, r.How = r.Rows[1:], "Once"
	r.Skipped = []string{"link: no link", "memory: no memory"}
	for range 2 {
		if err := r.RewriteSections(page, "make bench-faults"); err != nil {
			t.Fatal(err)
		}
	}
	raw, _ := os.ReadFile(page)
	got := string(raw)
	if !strings.HasPrefix(got, place("link")) || strings.Contains(got, "old memory") ||
		strings.Count(got, "| measure | measured | target |\n|---|---|---|\n| idle entity | 400 bytes | ≤ 350: missed |\n") != 1 || !strings.Contains(got, ". Once.\n") ||
		strings.Count(got, "\nNot measured: no memory.\n") != 1 || strings.Contains(got, "no link") {
		t.Errorf("the page is\n%s", got)
	}
	r.Rows[0].Section = "elsewhere"
	if err := r.RewriteSections(page, "make bench-faults"); err == nil {
		t.Error("a page without marks was taken")
	}
}

// TestRewritePart: only what was measured is replaced, a section may be new, and no row gets lost.
func TestRewritePart(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+begin+"\n"+end+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sample().Rewrite(page); err != nil {
		t.Fatal(err)
	}
	part := sample()
	part.Time = part.Time.AddDate(0, 0, 1)
	part.Rows = []Row{{Section: "memory", Measure: "idle entity", Unit: "bytes", Value: 500}, {Section: "calls", Measure: "region, once, worst of 3: asks", Unit: "asks/s", Value: 7}}
	for range 2 {
		if err := part.RewritePart(page); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for what, want := range map[string]int{"Medians": 2, ". Once.": 1, "### link\n": 1, "### memory\n": 1, "### calls\n": 1, "400 bytes": 0, "500 bytes": 1, "7 asks/s": 1, "2 January": 1, "3 January": 2, "before\n": 1, "\nafter\n": 1} {
		if got := strings.Count(text, what); got != want {
			t.Errorf("%q is there %d times, want %d:\n%s", what, got, want, text)
		}
	}
	part.Rows[0].Measure = "other"
	if err := part.RewritePart(page); err == nil || !strings.Contains(err.Error(), "idle entity") {
		t.Errorf("a row gets lost: %v", err)
	}
	if now, _ := os.ReadFile(page); !bytes.Equal(now, raw) {
		t.Error("a page is changed that is refused")
	}
	if err := os.WriteFile(page, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := part.RewritePart(page); err == nil {
		t.Error("a page without marks is rewritten")
	}
}

func TestLine(t *testing.T) {
	row := Row{Section: "link", Measure: "64 at a time", Unit: "calls/s", Value: 1234, P99: 2 * time.Millisecond, Target: Target{AtLeast: 1000}}
	row.Judge()
	if got, want := row.Line(), "link: 64 at a time: 1,230 calls/s  2 ms  ≥ 1,000: met"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

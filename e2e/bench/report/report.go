// Package report writes figures as a table for a terminal, as Markdown, as JSON and as a
// chart.
//
// # What this does not do
//
// It measures nothing.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Target is the goal of a figure. Zero fields are ignored.
type Target struct {
	Ratio   float64       `json:"ratio,omitempty"`    // of the baseline of the same run, at least
	AtLeast float64       `json:"at_least,omitempty"` // in the row's unit
	AtMost  float64       `json:"at_most,omitempty"`  // in the row's unit
	P99     time.Duration `json:"p99_ns,omitempty"`   // at most
	None    bool          `json:"none,omitempty"`     // the figure should be 0
}

// Row is one figure with its baseline.
type Row struct {
	Section string        `json:"section"`
	Measure string        `json:"measure"`
	Unit    string        `json:"unit"`
	Value   float64       `json:"value"`
	P50     time.Duration `json:"p50_ns,omitempty"`
	P99     time.Duration `json:"p99_ns,omitempty"`
	// CPU is the processor time of one operation, over all processes.
	CPU      time.Duration `json:"cpu_ns,omitempty"`
	Baseline *Baseline     `json:"baseline,omitempty"` // nil: none
	Target   Target        `json:"target"`
	Met      *bool         `json:"met,omitempty"` // nil: there is no target
}

// Baseline is the reference of a row.
type Baseline struct {
	Name  string        `json:"name"`
	Value float64       `json:"value"`
	P99   time.Duration `json:"p99_ns,omitempty"`
	CPU   time.Duration `json:"cpu_ns,omitempty"`
	Ratio float64       `json:"ratio"` // the row's value to the baseline's
}

// Judge sets Met.
func (r *Row) Judge() {
	t := r.Target
	if t == (Target{}) {
		return
	}
	met := (t.Ratio == 0 || r.Baseline != nil && r.Baseline.Ratio >= t.Ratio) &&
		r.Value >= t.AtLeast && (t.AtMost == 0 || r.Value <= t.AtMost) &&
		(t.P99 == 0 || r.P99 > 0 && r.P99 <= t.P99) && (!t.None || r.Value == 0)
	r.Met = &met
}

// Report is one run on one machine.
type Report struct {
	Time    time.Time     `json:"time"`
	Machine Machine       `json:"machine"`
	Rounds  int           `json:"rounds"`
	Length  time.Duration `json:"length_ns"`
	// How describes the measurement; empty: medians of rounds.
	How  string `json:"how,omitempty"`
	Rows []Row  `json:"rows"`
	// Skipped lists what was not measured, and the reasons.
	Skipped []string `json:"skipped,omitempty"`
}

// JSON writes the report for machines.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Table writes the report for a terminal.
func (r *Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range r.Rows {
		row := &r.Rows[i]
		if i == 0 || r.Rows[i-1].Section != row.Section {
			fmt.Fprintf(t, "%s\tmeasured\tp50\tp99\tCPU\tbaseline\t\tratio\ttarget\t\n", strings.ToUpper(row.Section))
		}
		fmt.Fprintln(t, strings.Join(append([]string{row.Measure}, row.cells()...), "\t")+"\t")
	}
	if r.Machine.Busy() {
		fmt.Fprintln(t, busy)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(t, "not measured: %s\n", s)
	}
	return t.Flush()
}

// Line returns the row in one line, for a run that shows its progress.
func (r *Row) Line() string {
	cells := slices.DeleteFunc(r.cells(), func(cell string) bool { return cell == "" })
	return r.Section + ": " + r.Measure + ": " + strings.Join(cells, "  ")
}

// cells returns the columns after the name of the measure.
func (r *Row) cells() []string {
	name, value, ratio := "", "", ""
	if b := r.Baseline; b != nil {
		name, value, ratio = b.Name, Number(b.Value), fmt.Sprintf("%.2f", b.Ratio)
		if b.P99 > 0 {
			value += ", p99 " + Duration(b.P99)
		}
		if b.CPU > 0 {
			value += ", CPU " + Duration(b.CPU)
		}
	}
	target := r.Target.String()
	switch {
	case r.Met != nil && *r.Met:
		target += ": met"
	case r.Met != nil:
		target += ": missed"
	}
	return []string{Number(r.Value) + " " + r.Unit, Duration(r.P50), Duration(r.P99), Duration(r.CPU), name, value, ratio, target}
}

// String returns the target in words, empty if there is none.
func (t Target) String() string {
	var parts []string
	if t.Ratio > 0 {
		parts = append(parts, fmt.Sprintf("≥ %.3g × baseline", t.Ratio))
	}
	if t.AtLeast > 0 {
		parts = append(parts, "≥ "+Number(t.AtLeast))
	}
	if t.AtMost > 0 {
		parts = append(parts, "≤ "+Number(t.AtMost))
	}
	if t.P99 > 0 {
		parts = append(parts, "p99 ≤ "+Duration(t.P99))
	}
	if t.None {
		parts = append(parts, "none")
	}
	return strings.Join(parts, ", ")
}

// Number returns three significant figures, with commas.
func Number(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprint(v)
	}
	if v < 100 {
		return fmt.Sprintf("%.3g", v)
	}
	scale := math.Pow(10, math.Floor(math.Log10(v))-2)
	s := fmt.Sprintf("%.0f", math.Round(v/scale)*scale)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Duration returns a time in a suitable unit, empty for 0.
func Duration(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.3g s", d.Seconds())
}

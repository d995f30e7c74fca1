package report

import (
	"fmt"
	"os"
	"strings"
)

// The table in a page of the documentation stands between these lines.
const (
	begin = "<!-- figures: begin, written by make bench -->"
	end   = "<!-- figures: end -->"
)

// Markdown is the report as a page shows it.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s: %s. Medians of %d rounds of %s.\n",
		r.Time.UTC().Format("2 January 2006"), r.Machine, r.Rounds, Duration(r.Length))
	if r.Machine.Busy() {
		b.WriteString(busy + "\n")
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if i == 0 || r.Rows[i-1].Section != row.Section {
			fmt.Fprintf(&b, "\n### %s\n\n| measure | measured | p50 | p99 | CPU | baseline | | ratio | target |\n|---|---|---|---|---|---|---|---|---|\n", row.Section)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", row.Measure, strings.Join(row.cells(), " | "))
	}
	if len(r.Skipped) > 0 {
		fmt.Fprintf(&b, "\nNot measured: %s.\n", strings.Join(r.Skipped, "; "))
	}
	return b.String()
}

// Rewrite puts the report between the marks of a page.
func (r *Report) Rewrite(page string) error {
	raw, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(raw), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q for the figures to stand between", page, begin, end)
	}
	return os.WriteFile(page, []byte(head+begin+"\n\n"+r.Markdown()+"\n"+end+tail), 0o644)
}

package report

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// The table in a page of the documentation is between these lines.
const (
	begin = "<!-- figures: begin, written by make bench -->"
	end   = "<!-- figures: end -->"
)

// Markdown returns the report in Markdown.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString(r.origin(""))
	for i := range r.Rows {
		if i == 0 || r.Rows[i-1].Section != r.Rows[i].Section {
			b.WriteString("\n" + r.section(r.Rows[i].Section))
		}
	}
	return b.String() + notMeasured(r.Skipped)
}

// origin returns when, where and how the figures of a section were measured, or with an
// empty name of all sections.
func (r *Report) origin(section string) string {
	how := r.How
	switch {
	case how != "":
	case section != "" && r.once(section):
		how = "Once"
	default:
		how = fmt.Sprintf("Medians of %d rounds of %s", r.Rounds, Duration(r.Length))
	}
	s := fmt.Sprintf("Measured on %s: %s. %s.\n", r.Time.UTC().Format("2 January 2006"), r.Machine, how)
	if r.Machine.Busy() {
		s += busy + "\n"
	}
	return s
}

// once reports whether the measures of a section say that there are no rounds of them.
func (r *Report) once(section string) bool {
	return !slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Section == section && !strings.Contains(row.Measure, ", once, ") })
}

// notMeasured lists the missing measures, empty if none is.
func notMeasured(skipped []string) string {
	if len(skipped) == 0 {
		return ""
	}
	return fmt.Sprintf("\nNot measured: %s.\n", strings.Join(skipped, "; "))
}

// section returns the table of a section, without empty columns.
func (r *Report) section(name string) string {
	table := [][]string{{"measure", "measured", "p50", "p99", "CPU", "baseline", "", "ratio", "target"}}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Section == name {
			table = append(table, append([]string{row.Measure}, row.cells()...))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", name)
	for i, line := range table {
		for c, cell := range line {
			if slices.ContainsFunc(table[1:], func(row []string) bool { return row[c] != "" }) {
				b.WriteString("| " + cell + " ")
			}
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", strings.Count(b.String(), "|")-1) + "|\n")
		}
	}
	return b.String()
}

// Rewrite replaces what is between the marks of a page by the report.
func (r *Report) Rewrite(page string) error {
	return rewrite(page, func(text string) (string, error) { return between(text, begin, end, r.Markdown()) })
}

// RewritePart replaces only the sections that the report has, or adds them, and says below each when
// it was measured. It refuses a report that lacks rows of such a section.
func (r *Report) RewritePart(page string) error {
	return rewrite(page, func(text string) (string, error) {
		_, rest, ok := strings.Cut(text, begin)
		figures, _, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			return between(text, begin, end, "")
		}
		const heading = "\n### "
		parts := strings.Split("\n"+strings.TrimSpace(figures)+"\n", heading)
		for i := range r.Rows {
			name := r.Rows[i].Section
			if i > 0 && r.Rows[i-1].Section == name {
				continue
			}
			part := strings.TrimPrefix(r.section(name), heading[1:]) + "\n" + r.origin(name)
			at := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, name+"\n") })
			if at < 0 {
				parts = append(parts, part)
				continue
			}
			for line := range strings.Lines(parts[at]) {
				cell, _, row := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
				if row && strings.HasPrefix(line, "| ") && !strings.Contains(part, "| "+cell+" | ") {
					return "", fmt.Errorf("this run lacks %q of section %q, which another suite measures: run these suites together, as RUN=\"a|b\"", cell, name)
				}
			}
			parts[at] = part
		}
		return between(text, begin, end, strings.TrimSpace(strings.Join(parts, heading))+"\n")
	})
}

// RewriteSections replaces each section between marks of its own, which name the command that it is
// written by. It leaves others as they are, so that a part can be measured again. What begins with a
// section's name in Skipped is said below that section.
func (r *Report) RewriteSections(page, by string) error {
	return rewrite(page, func(text string) (_ string, err error) {
		for i := range r.Rows {
			name := r.Rows[i].Section
			if i > 0 && r.Rows[i-1].Section == name {
				continue
			}
			var skipped []string
			for _, s := range r.Skipped {
				if s, ok := strings.CutPrefix(s, name+": "); ok {
					skipped = append(skipped, s)
				}
			}
			text, err = between(text, "<!-- "+name+": begin, written by "+by+" -->", "<!-- "+name+": end -->", r.section(name)+"\n"+r.origin(name)+notMeasured(skipped))
			if err != nil {
				return "", err
			}
		}
		return text, nil
	})
}

func rewrite(page string, change func(string) (string, error)) error {
	raw, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	text, err := change(string(raw))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(text), 0o644)
}

// between replaces what is between two lines.
func between(text, first, last, with string) (string, error) {
	head, rest, ok := strings.Cut(text, first)
	_, tail, ok2 := strings.Cut(rest, last)
	if !ok || !ok2 {
		return "", fmt.Errorf("there are no lines %q and %q for the figures to stand between", first, last)
	}
	return head + first + "\n\n" + with + "\n" + last + tail, nil
}

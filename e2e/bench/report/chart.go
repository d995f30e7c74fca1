package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Sizes of the chart, in pixels.
const (
	lineHeight  = 22
	barHeight   = 14
	barsWidth   = 420
	valuesWidth = 190
	margin      = 14
	gap         = 8
	// letterWidth is more than a letter has on average, in the widest of the usual fonts.
	letterWidth = 6.6
	// longestShare is the largest ratio that has room: a longer bar is cut, and says so.
	longestShare = 2.0
	// longestLabel is the most letters of a label. A longer one is cut in the middle.
	longestLabel = 84
)

// drawing is a chart with a label, a bar and a value in each line.
type drawing struct {
	strings.Builder
	labels int // width of the labels
	lines  int // used so far
}

// label returns what fits.
func label(s string) string {
	if utf8.RuneCountInString(s) <= longestLabel {
		return s
	}
	letters := []rune(s)
	half := longestLabel / 2
	return string(letters[:half]) + "…" + string(letters[len(letters)-half+1:])
}

// fit makes place for a label.
func (d *drawing) fit(label string) {
	d.labels = max(d.labels, int(float64(utf8.RuneCountInString(label))*letterWidth)+gap)
}

// bars returns where the bars begin.
func (d *drawing) bars() int { return margin + d.labels }

func (d *drawing) text(x, y int, anchor, s string) {
	fmt.Fprintf(d, `<text x="%d" y="%d" text-anchor="%s">`, x, y, anchor)
	_ = xml.EscapeText(d, []byte(s)) // a strings.Builder takes everything
	d.WriteString("</text>\n")
}

// line draws the next line: a bar that takes a share of the width. It returns the bar's top.
func (d *drawing) line(label, value string, share float64) (top int) {
	d.lines++
	top = margin + d.lines*lineHeight
	d.text(d.bars()-gap, top+barHeight-2, "end", label)
	fmt.Fprintf(d, `<rect class="bar" x="%d" y="%d" width="%d" height="%d"/>`+"\n", d.bars(), top, max(1, int(share*barsWidth)), barHeight)
	d.text(d.bars()+barsWidth+gap, top+barHeight-2, "start", value)
	return top
}

// write writes the chart. Its style sheet follows the light or dark colour scheme.
func (d *drawing) write(w io.Writer, title string) error {
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img" aria-label="%s">
<style>text{fill:#333}.bar{fill:#3b7dd8}.cut{fill:#fff}.base{stroke:#888;stroke-dasharray:3 3}.goal{stroke:#d08a1d;stroke-width:2}@media (prefers-color-scheme:dark){text{fill:#ddd}.cut{fill:#fff}}</style>
%s</svg>
`, 2*margin+d.labels+barsWidth+valuesWidth, 2*margin+(d.lines+2)*lineHeight, title, d.String())
	return err
}

// Chart draws the ratio of every row to its baseline as a bar, with the target
// as a mark.
func (r *Report) Chart(w io.Writer) error {
	var d drawing
	var rows []*Row
	most := 1.0
	name := func(row *Row) string { return label(row.Section + ": " + row.Measure) }
	for i := range r.Rows {
		if b := r.Rows[i].Baseline; b != nil {
			rows = append(rows, &r.Rows[i])
			most = min(longestShare, max(most, b.Ratio, r.Rows[i].Target.Ratio))
			d.fit(name(&r.Rows[i]))
		}
	}
	at := func(ratio float64) int { return d.bars() + int(min(ratio, most)/most*barsWidth) }
	d.text(d.bars(), margin+lineHeight/2, "start", "share of the baseline of the same run")
	for _, row := range rows {
		top := d.line(name(row), fmt.Sprintf("%.2f   %s %s", row.Baseline.Ratio, Number(row.Value), row.Unit), min(row.Baseline.Ratio, most)/most)
		if row.Baseline.Ratio > most {
			fmt.Fprintf(&d, `<text class="cut" x="%d" y="%d" text-anchor="end">»</text>`+"\n", at(most)-gap/2, top+barHeight-3)
		}
		if g := row.Target.Ratio; g > 0 && g <= most {
			fmt.Fprintf(&d, `<line class="goal" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", at(g), top-2, at(g), top+barHeight+2)
		}
	}
	bottom := margin + (len(rows)+1)*lineHeight
	fmt.Fprintf(&d, `<line class="base" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", at(1), margin+lineHeight-4, at(1), bottom)
	d.text(at(1), bottom+barHeight, "middle", "baseline")
	return d.write(w, "Rates of Roost as a share of their baselines")
}

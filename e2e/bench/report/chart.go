package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Sizes of the chart, in pixels.
const (
	lineHeight  = 22
	barHeight   = 14
	labelWidth  = 330
	barsWidth   = 420
	valuesWidth = 190
	margin      = 14
)

// Chart draws the ratio of every row to its baseline as a bar, with the target
// as a mark. Its style sheet follows the light or dark colour scheme.
func (r *Report) Chart(w io.Writer) error {
	var rows []*Row
	most := 1.0
	for i := range r.Rows {
		if b := r.Rows[i].Baseline; b != nil {
			rows = append(rows, &r.Rows[i])
			most = max(most, min(b.Ratio, 2), r.Rows[i].Target.Ratio)
		}
	}
	width, height := 2*margin+labelWidth+barsWidth+valuesWidth, 2*margin+(len(rows)+2)*lineHeight
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img" aria-label="Rates of Roost as a share of their baselines">
<style>text{fill:#333}.bar{fill:#3b7dd8}.base{stroke:#888;stroke-dasharray:3 3}.goal{stroke:#d08a1d;stroke-width:2}@media (prefers-color-scheme:dark){text{fill:#ddd}}</style>
`, width, height)
	text := func(x, y int, anchor, s string) {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="%s">`, x, y, anchor)
		_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
		b.WriteString("</text>\n")
	}
	at := func(ratio float64) int { return margin + labelWidth + int(min(ratio, most)/most*barsWidth) }
	text(margin+labelWidth, margin+lineHeight/2, "start", "share of the baseline of the same run")
	for i, row := range rows {
		top := margin + (i+1)*lineHeight
		text(margin+labelWidth-8, top+barHeight-2, "end", row.Section+": "+row.Measure)
		fmt.Fprintf(&b, `<rect class="bar" x="%d" y="%d" width="%d" height="%d"/>`+"\n", at(0), top, max(1, at(row.Baseline.Ratio)-at(0)), barHeight)
		if g := row.Target.Ratio; g > 0 {
			fmt.Fprintf(&b, `<line class="goal" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", at(g), top-2, at(g), top+barHeight+2)
		}
		text(at(most)+8, top+barHeight-2, "start", fmt.Sprintf("%.2f   %s %s", row.Baseline.Ratio, Number(row.Value), row.Unit))
	}
	bottom := margin + (len(rows)+1)*lineHeight
	fmt.Fprintf(&b, `<line class="base" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", at(1), margin+lineHeight-4, at(1), bottom)
	text(at(1), bottom+barHeight, "middle", "baseline")
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

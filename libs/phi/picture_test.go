package phi_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/phi"
)

var rewrite = flag.Bool("rewrite", false, "write phi.svg")

// TestPicture: phi.svg shows what the detectors do. After an intended change, run
// go test ./libs/phi -run TestPicture -rewrite
func TestPicture(t *testing.T) {
	drawn := picture()
	if *rewrite {
		if err := os.WriteFile("phi.svg", []byte(drawn), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile("phi.svg"); err != nil || string(kept) != drawn {
		t.Errorf("phi.svg is not what the detectors do now (%v): run this test with -rewrite", err)
	}
}

const (
	from, until   = -6 * time.Second, 8 * time.Second // around the last heartbeat
	most          = 16.0                              // the highest phi drawn
	left, top     = 60.0, 40.0
	width, height = 700.0, 300.0
	step          = 20 * time.Millisecond // between two points of a curve
	warmUp        = 50                    // heartbeats before the last one
)

func x(at time.Duration) float64 { return left + width*float64(at-from)/float64(until-from) }
func y(phi float64) float64      { return top + height*(1-min(phi, most)/most) }

// beats returns the times of heartbeats, about one per second, the last one at 0. Each
// comes up to spread early or late, without a pattern.
func beats(spread time.Duration) []time.Duration {
	var out []time.Duration
	for i := -warmUp; i < 0; i++ {
		late := time.Duration((i*i*37+i*11)%201-100) * spread / 100
		out = append(out, time.Duration(i)*time.Second+late)
	}
	return append(out, 0)
}

// curve returns phi over time as far as it fits the picture, and when the peer was first
// unavailable; -1: never.
func curve(class string, d phi.Detector, beats []time.Duration) (svg string, suspected time.Duration) {
	var xs, ys []string
	start := time.Unix(1000, 0)
	suspected = -1
	for at := -warmUp*time.Second - time.Second; at <= until; at += step {
		for len(beats) > 0 && beats[0] <= at {
			d.Heartbeat(start.Add(beats[0]))
			beats = beats[1:]
		}
		if at < from {
			continue
		}
		now := start.Add(at)
		if at > 0 && suspected < 0 && !d.Available(now) {
			suspected = at
		}
		xs, ys = append(xs, fmt.Sprintf("%.1f", x(at))), append(ys, fmt.Sprintf("%.1f", y(d.Phi(now))))
		if d.Phi(now) > most {
			break
		}
	}
	var points []string
	for i := range xs { // leaves out points between equal ones
		if i == 0 || i == len(xs)-1 || ys[i-1] != ys[i] || ys[i+1] != ys[i] {
			points = append(points, xs[i]+","+ys[i])
		}
	}
	return fmt.Sprintf("<polyline class=\"curve %s\" points=\"%s\"/>\n", class, strings.Join(points, " ")), suspected
}

// picture returns the SVG, which follows the light or dark colour scheme.
func picture() string {
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 790 490" font-family="system-ui, sans-serif" font-size="13" role="img" aria-labelledby="t d">`)
	add(`<title id="t">Suspicion over time</title>`)
	add(`<desc id="d">A peer sends a heartbeat about every second and dies at 0. Without an acceptable pause phi rises even between heartbeats and exceeds 8 within two seconds. With a pause of 3 s it stays near 0 until 4 s, then rises steeply if heartbeats were regular, less so if they were not. The deadline detector jumps at 4 s.</desc>`)
	add(`<style>.curve{fill:none;stroke-width:2}.a{stroke:#cf222e}.b{stroke:#0969da}.c{stroke:#8250df}.d{stroke:#2da44e;stroke-dasharray:6 3}
.axis{stroke:#57606a}.grid{stroke:#d0d7de}.mark{stroke:#9a6700;stroke-dasharray:3 4}text{fill:#1f2328}.small{font-size:11.5px;fill:#57606a}
@media (prefers-color-scheme:dark){.grid{stroke:#30363d}text{fill:#e6edf3}.small{fill:#8b949e}.axis{stroke:#8b949e}}</style>`)
	for s := from; s <= until; s += time.Second {
		add(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="small" x="%.1f" y="%.1f" text-anchor="middle">%d s</text>`,
			x(s), x(s), y(most), y(0), x(s), y(0)+18, int(s.Seconds()))
	}
	for p := 0.0; p <= most; p += 4 {
		add(`<text class="small" x="%.1f" y="%.1f" text-anchor="end">%.0f</text>`, left-8, y(p)+4, p)
	}
	add(`<line class="axis" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><line class="axis" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`,
		left, left+width, y(0), y(0), x(0), x(0), y(0), y(most))
	for _, threshold := range []float64{phi.DefaultConfig().Threshold, phi.CloudConfig().Threshold} {
		add(`<line class="mark" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="small" x="%.1f" y="%.1f">threshold %.0f</text>`,
			left, left+width, y(threshold), y(threshold), left+6, y(threshold)-5, threshold)
	}
	add(`<text x="%.1f" y="%.1f">phi</text><text x="%.1f" y="%.1f" text-anchor="middle">last heartbeat</text>`, left-40, top-18, x(0), top-18)
	hasty := phi.DefaultConfig()
	hasty.Pause = 0
	for i, c := range []struct {
		class, name string
		detector    phi.Detector
		beats       []time.Duration
	}{
		{"a", "no pause acceptable, intervals of 0.8 to 1.2 s", phi.New(hasty), beats(100 * time.Millisecond)},
		{"b", "the defaults: a pause of 3 s acceptable, the same intervals", phi.New(phi.DefaultConfig()), beats(100 * time.Millisecond)},
		{"c", "the defaults, intervals of 0.2 to 1.8 s", phi.New(phi.DefaultConfig()), beats(400 * time.Millisecond)},
		{"d", "deadline: interval 1 s, a pause of 3 s", phi.NewDeadline(phi.DeadlineConfig{Interval: time.Second, Pause: 3 * time.Second}), beats(100 * time.Millisecond)},
	} {
		line, suspected := curve(c.class, c.detector, c.beats)
		b.WriteString(line)
		row := y(0) + 48 + 22*float64(i)
		add(`<line class="curve %s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text x="%.1f" y="%.1f">%s: suspected after %.2f s</text>`,
			c.class, left, left+30, row-4, row-4, left+40, row, c.name, suspected.Seconds())
	}
	b.WriteString("</svg>\n")
	return b.String()
}

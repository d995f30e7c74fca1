package sim

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// trace adds a line to the trace, if it is read: time, process, what, and the
// message with its field names, without empty fields.
func (w *World) trace(p *process, what string, v any) {
	if w.traceTo == nil {
		return
	}
	name := "-"
	if p != nil {
		name = p.name
	}
	w.traceTo(fmt.Sprintf("%11.6f %-13s %-8s %s", float64(w.now)/1e9, name, what, describe(v)))
}

var (
	noise = regexp.MustCompile(` ?\b(Encoding:0|Tell:false|Keyed:false|Trace:|Code:|Message:|Payload:\[\]|Deadline:0001-01-01 00:00:00 \+0000 UTC|Timing:\{[^}]*\}|Hash:\d+)`)
	bytes = regexp.MustCompile(`Payload:\[([0-9 ]+)\]`)
	// The value of a pointer differs from run to run.
	pointer = regexp.MustCompile(`:0x[0-9a-f]+\b`)
	date    = regexp.MustCompile(`\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d(\.\d+)?) \+0000 UTC`)
)

func describe(v any) string {
	if v == nil {
		return ""
	}
	if s, ok := v.(string); ok {
		return s
	}
	text := strings.TrimPrefix(fmt.Sprintf("%+v", v), "&")
	text = noise.ReplaceAllString(text, "")
	text = bytes.ReplaceAllStringFunc(text, func(m string) string {
		var raw []byte
		for _, f := range strings.Fields(m[len("Payload:[") : len(m)-1]) {
			n, _ := strconv.Atoi(f)
			raw = append(raw, byte(n))
		}
		return "Payload:" + strings.TrimLeft(hex.EncodeToString(raw[:min(8, len(raw))]), "0")
	})
	text = pointer.ReplaceAllString(text, ":&")
	text = date.ReplaceAllString(text, "$1")
	return strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", v), "*"), "sim.") + " " + text
}

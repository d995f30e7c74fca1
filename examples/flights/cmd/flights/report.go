package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/roost-cluster/roost/examples/flights"
)

// busiest is the number of airports that the table shows.
const busiest = 10

// shownDifferences bounds the differences that are printed; the report has all.
const shownDifferences = 20

// report has all figures of a run, as -report writes them.
type report struct {
	File     string `json:"file"`
	Digest   string `json:"digest"`
	Flights  int    `json:"flights"`
	Commands int64  `json:"commands"`
	Airports int    `json:"airports"`
	Routes   int    `json:"routes"`
	Faults   string `json:"faults"`

	Concurrency int `json:"concurrency"`
	// Seconds of the whole run, of the stream of commands alone, and what that
	// makes per second.
	Seconds       float64 `json:"seconds"`
	StreamSeconds float64 `json:"stream_seconds"`
	PerSecond     float64 `json:"commands_per_second"`

	// Retried is the number of errors that the client saw and retried. Resent is the number of errors that
	// the gateways hid from it by sending the command again.
	Retried int64            `json:"errors_retried"`
	Resent  int64            `json:"resent_by_gateways"`
	Errors  map[string]int64 `json:"errors_by_code"`
	Latency latency          `json:"latency_ms"`
	Stalls  []stall          `json:"stalls"`
	Moved   int              `json:"shards_moved"`
	// Moving is the number of shards that were moving when the coordinator was killed.
	Moving int `json:"shards_moving_at_coordinator_kill"`

	Busiest     []airport    `json:"busiest_airports"`
	Equal       bool         `json:"equal"`
	Differences []difference `json:"differences"`
}

// latency is the time of commands from their first sending to their success.
type latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// stall is the longest time in which an airport with waiting commands had no
// success, from one fault to the next.
type stall struct {
	Fault   string  `json:"fault"`
	Begin   float64 `json:"at_seconds"`
	Longest float64 `json:"longest_seconds"`
	Airport string  `json:"airport,omitempty"`
}

type airport struct {
	Code string `json:"airport"`
	flights.AirportCount
}

// fill adds what the recorder saw.
func (r *report) fill(rec *recorder, in *input, begun time.Time) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	r.Retried, r.Errors = rec.retried, rec.errors
	ms := func(us int64) float64 { return float64(us) / 1000 }
	r.Latency = latency{ms(rec.latency.ValueAtQuantile(50)), ms(rec.latency.ValueAtQuantile(99)), ms(rec.latency.Max())}
	for _, w := range rec.windows {
		s := stall{Fault: w.what, Begin: w.begin.Sub(begun).Seconds(), Longest: w.longest.Seconds()}
		if w.longest > 0 {
			s.Airport = in.airports[w.airport]
		}
		r.Stalls = append(r.Stalls, s)
	}
}

// judge compares what was read back with the file.
func (r *report) judge(in *input, got *totals) {
	r.Differences = compare(in, got)
	r.Equal = len(r.Differences) == 0
	r.Busiest = []airport{}
	for i, code := range in.airports {
		r.Busiest = append(r.Busiest, airport{code, got.airports[i]})
	}
	slices.SortFunc(r.Busiest, func(a, b airport) int {
		return cmp.Or(cmp.Compare(b.Departures+b.Arrivals, a.Departures+a.Arrivals), cmp.Compare(a.Code, b.Code))
	})
	r.Busiest = r.Busiest[:min(busiest, len(r.Busiest))]
}

// print writes the report for people.
func (r *report) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\nbusiest airports\tdepartures\tarrivals\tdeparture delay\t\n")
	for _, a := range r.Busiest {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s min\t\n", a.Code, humanize.Comma(a.Departures), humanize.Comma(a.Arrivals), humanize.Comma(a.DepartureDelayMinutes))
	}
	_ = table.Flush()

	fmt.Fprintf(out, "\n%s commands in %.1f s, %s/s, %d at a time\n",
		humanize.Comma(r.Commands), r.StreamSeconds, humanize.Comma(int64(r.PerSecond)), r.Concurrency)
	fmt.Fprintf(out, "errors seen and retried: %s by the client%s, %s by the gateways\n", humanize.Comma(r.Retried), r.codes(), humanize.Comma(r.Resent))
	fmt.Fprintf(out, "latency: p50 %.1f ms, p99 %.1f ms, max %.1f ms\n", r.Latency.P50, r.Latency.P99, r.Latency.Max)
	fmt.Fprintf(out, "shards moved: %d\n\n", r.Moved)

	table = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "fault\tat\tlongest stall (an airport had commands waiting and none succeeded)\n")
	for _, s := range r.Stalls {
		fmt.Fprintf(table, "%s\t%s\t%.3f s  %s\n", s.Fault, clock(time.Duration(s.Begin*float64(time.Second))), s.Longest, s.Airport)
	}
	_ = table.Flush()
	r.verdict(out)
}

// codes returns the errors by code.
func (r *report) codes() (list string) {
	if len(r.Errors) == 0 {
		return ""
	}
	for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
		list += fmt.Sprintf(", %s %s", humanize.Comma(r.Errors[code]), code)
	}
	return " (" + list[2:] + ")"
}

func (r *report) verdict(out io.Writer) {
	if r.Equal {
		fmt.Fprintf(out, "\nEQUAL: the totals of all %d airports and %d routes match the file. Nothing lost, nothing counted twice.\n", r.Airports, r.Routes)
		return
	}
	fmt.Fprintf(out, "\nNOT EQUAL: %d of %d totals differ from the file.\n", len(r.Differences), r.Airports+r.Routes)
	for i, d := range r.Differences {
		if i == shownDifferences {
			fmt.Fprintf(out, "  … and %d more\n", len(r.Differences)-i)
			break
		}
		fmt.Fprintf(out, "  %s: counted %+v, read back %+v\n", d.Entity, d.Want, d.Got)
	}
}

// writeReport writes the figures as JSON.
func writeReport(path string, r *report) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644)
}

// writeAirports writes what was read back, sorted by airport.
func writeAirports(path string, in *input, got *totals) error {
	return writeCSV(path, "airport,departures,arrivals,departure_delay_minutes", in.airports, func(i int) []int64 {
		c := got.airports[i]
		return []int64{c.Departures, c.Arrivals, c.DepartureDelayMinutes}
	})
}

// writeRoutes writes what was read back, sorted by route.
func writeRoutes(path string, in *input, got *totals) error {
	return writeCSV(path, "route,flights,miles", in.routes, func(i int) []int64 {
		c := got.routes[i]
		return []int64{c.Flights, c.Miles}
	})
}

// writeCSV writes one row per id, in the order of the ids. No id needs quotes.
func writeCSV(path, header string, ids []string, figures func(i int) []int64) error {
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ids[a], ids[b]) })
	var b bytes.Buffer
	b.WriteString(header + "\n")
	for _, i := range order {
		b.WriteString(ids[i])
		for _, n := range figures(i) {
			b.WriteString("," + strconv.FormatInt(n, 10))
		}
		b.WriteByte('\n')
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

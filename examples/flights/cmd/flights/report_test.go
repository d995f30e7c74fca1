package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/examples/flights"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func twoFlights(t *testing.T) *input {
	t.Helper()
	in, err := readInput("f.csv", strings.NewReader(header+
		"01010001,14,405,MDW,MCI\n01010001,-20,1500,MCI,LAX\n"))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func (in *input) counted() *totals {
	return &totals{append([]flights.AirportCount(nil), in.airportCounts...), append([]flights.RouteCount(nil), in.routeCounts...)}
}

func TestFilesAreSorted(t *testing.T) {
	in, dir := twoFlights(t), t.TempDir()
	airports, routes := filepath.Join(dir, "a.csv"), filepath.Join(dir, "r.csv")
	if err := writeAirports(airports, in, in.counted()); err != nil {
		t.Fatal(err)
	}
	if err := writeRoutes(routes, in, in.counted()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		airports: "airport,departures,arrivals,departure_delay_minutes\nLAX,0,1,0\nMCI,1,1,-20\nMDW,1,0,14\n",
		routes:   "route,flights,miles\nMCI-LAX,1,1500\nMDW-MCI,1,405\n",
	} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s, %v:\n%s\nwant:\n%s", filepath.Base(path), err, got, want)
		}
	}
}

func TestEveryFigureIsCompared(t *testing.T) {
	in := twoFlights(t)
	if found := compare(in, in.counted()); len(found) != 0 {
		t.Fatalf("differences where there are none: %+v", found)
	}
	for i, change := range []func(*totals){
		func(g *totals) { g.airports[0].Departures++ },
		func(g *totals) { g.airports[1].Arrivals-- },
		func(g *totals) { g.airports[2].DepartureDelayMinutes++ },
		func(g *totals) { g.routes[0].Flights++ },
		func(g *totals) { g.routes[1].Miles-- },
	} {
		got := in.counted()
		change(got)
		var r report
		r.judge(in, got)
		var out strings.Builder
		r.print(&out)
		if len(r.Differences) != 1 || r.Equal || !strings.Contains(out.String(), "NOT EQUAL: 1 of") {
			t.Errorf("change %d: %+v\n%s", i, r.Differences, &out)
		}
	}
}

func TestReport(t *testing.T) {
	in := twoFlights(t)
	start := time.Unix(1000, 0)
	rec := newRecorder(len(in.airports), start)
	rec.begin(1, start)
	rec.done(1, start, start.Add(30*time.Millisecond))
	rec.fault("SIGKILL region-2", start.Add(61*time.Second))
	rec.retry("unavailable")
	r := report{Airports: 3, Routes: 2, Commands: 693_249, StreamSeconds: 100, PerSecond: 6932.49, Moved: 12, Resent: 187}
	r.judge(in, in.counted())
	r.fill(rec, in, start)
	var out strings.Builder
	r.print(&out)
	for _, want := range []string{
		"MCI           1         1          -20 min", "693,249 commands in 100.0 s, 6,932/s", "errors seen and retried: 1 by the client (1 unavailable), 187 by the gateways\n",
		"p50 30.0 ms", "shards moved: 12", "calm              00:00  0.030 s  MCI", "SIGKILL region-2  01:01  0.000 s", "EQUAL: the totals of all 3 airports and 2 routes",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
	path := filepath.Join(t.TempDir(), "report.json")
	if err := writeReport(path, &r); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(content, &got); err != nil || got["equal"] != true || got["commands"] != 693_249. || got["errors_retried"] != 1. {
		t.Errorf("%v\n%s", err, content)
	}
}

func TestTableCountsMoves(t *testing.T) {
	row := func(index uint32, region, phase string) *adminv1.Shard {
		return &adminv1.Shard{Type: "Airport", Index: index, Region: region, Phase: phase}
	}
	table := newTable(nil)
	table.enter([]*adminv1.Shard{row(1, "region-1", serving), row(2, "region-2", serving)})
	table.enter([]*adminv1.Shard{row(1, "region-1", handingOff), row(2, "region-2", serving)})
	table.enter([]*adminv1.Shard{row(1, "region-3", "starting"), row(2, "region-2", serving), row(3, "region-2", serving)})
	if n := table.moves(); n != 0 {
		t.Errorf("%d moves before one has ended", n)
	}
	table.enter([]*adminv1.Shard{row(1, "region-3", serving), row(2, "region-1", serving)})
	if n := table.moves(); n != 2 {
		t.Errorf("%d moves, want 2", n)
	}
}

func TestProgress(t *testing.T) {
	var out strings.Builder
	var done int64
	start := time.Now()
	p := &progress{
		out: &out, begun: start, lined: start, total: 693_249,
		done: func() int64 { return done }, retried: func() int64 { return 1234 },
	}
	for ms := 250; ms <= 10_000; ms += 250 {
		done = int64(ms) * 5
		p.tick(start.Add(time.Duration(ms) * time.Millisecond))
	}
	want := "00:05    3%  5,000/s  25,000 of 693,249  retried 1,234\n00:10    7%  5,000/s  50,000 of 693,249  retried 1,234\n"
	if out.String() != want {
		t.Errorf("lines:\n%swant:\n%s", &out, want)
	}
	out.Reset()
	p.terminal = true
	done = p.total
	p.tick(start.Add(11 * time.Second))
	p.say("SIGKILL %s", "region-2")
	bar := "\r\x1b[K[########################] 100%"
	if got := out.String(); !strings.HasPrefix(got, bar) || !strings.HasSuffix(got, "\r\x1b[K00:00  SIGKILL region-2\n") {
		t.Errorf("bar: %q", got)
	}
}

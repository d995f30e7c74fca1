package main

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/examples/flights"
	"github.com/roost-cluster/roost/examples/flights/data"
)

const header = "date,delay,distance,origin,destination\n"

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadInputCounts(t *testing.T) {
	text := header +
		"01010001,14,405,MCI,MDW\n" +
		"01010001,14,405,MCI,MDW\n" + // an equal row is another flight
		"\r\n" +
		"02292400,-11,370,MDW,MCI\r\n" +
		"12312359,0,0,MCI,1G4\n"
	plain, err := readInput("a.csv", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := readInput("a.csv.gz", bytes.NewReader(zipped(t, text)))
	if err != nil {
		t.Fatal(err)
	}
	if plain.digest != packed.digest || len(plain.digest) != 16 {
		t.Errorf("digests %q and %q of the same content", plain.digest, packed.digest)
	}
	for _, in := range []*input{plain, packed} {
		got := map[string]any{}
		for i, code := range in.airports {
			got[code] = in.airportCounts[i]
		}
		for i, id := range in.routes {
			got[id] = in.routeCounts[i]
		}
		want := map[string]any{
			"MCI":     flights.AirportCount{Departures: 3, Arrivals: 1, DepartureDelayMinutes: 28},
			"MDW":     flights.AirportCount{Departures: 1, Arrivals: 2, DepartureDelayMinutes: -11},
			"1G4":     flights.AirportCount{Arrivals: 1},
			"MCI-MDW": flights.RouteCount{Flights: 2, Miles: 810},
			"MDW-MCI": flights.RouteCount{Flights: 1, Miles: 370},
			"MCI-1G4": flights.RouteCount{Flights: 1},
		}
		if len(got) != len(want) {
			t.Errorf("%s has %d totals, want %d", in.name, len(got), len(want))
		}
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("%s %s: %+v, want %+v", in.name, name, got[name], want[name])
			}
		}
		if n, line := len(in.flights), in.flights[3].line; n != 4 || line != 6 {
			t.Errorf("%s: %d flights, the last in line %d; want 4 and 6", in.name, n, line)
		}
	}
}

func TestReadInputRefuses(t *testing.T) {
	good := "01010001,14,405,MCI,MDW\n"
	for name, tc := range map[string]struct{ text, want string }{
		"empty":             {"", "f.csv:1: the file is empty"},
		"no header":         {good, "f.csv:1: the header is"},
		"other header":      {"date,delay,distance,destination,origin\n" + good, "f.csv:1: the header is"},
		"missing column":    {header + good + "01010001,14,405,MCI\n", "f.csv:3: 4 columns"},
		"one more column":   {header + "01010001,14,405,MCI,MDW,x\n", "f.csv:2: 6 columns"},
		"month 13":          {header + "13010001,14,405,MCI,MDW\n", "f.csv:2: date"},
		"30 February":       {header + "02300001,14,405,MCI,MDW\n", "f.csv:2: date"},
		"day 0":             {header + "01000001,14,405,MCI,MDW\n", "f.csv:2: date"},
		"hour 25":           {header + "01012500,14,405,MCI,MDW\n", "f.csv:2: date"},
		"minute 60":         {header + "01010060,14,405,MCI,MDW\n", "f.csv:2: date"},
		"short date":        {header + "1010001,14,405,MCI,MDW\n", "f.csv:2: date"},
		"signed date":       {header + "+1010001,14,405,MCI,MDW\n", "f.csv:2: date"},
		"no delay":          {header + "01010001,,405,MCI,MDW\n", "f.csv:2: delay"},
		"fractional delay":  {header + "01010001,1.5,405,MCI,MDW\n", "f.csv:2: delay"},
		"absurd delay":      {header + "01010001,100001,405,MCI,MDW\n", "f.csv:2: delay"},
		"negative distance": {header + "01010001,1,-1,MCI,MDW\n", "f.csv:2: distance"},
		"huge distance":     {header + "01010001,1,99999999999999999999,MCI,MDW\n", "f.csv:2: distance"},
		"no origin":         {header + "01010001,1,1,,MDW\n", `f.csv:2: origin ""`},
		"lower case":        {header + "01010001,1,1,MCI,mdw\n", `f.csv:2: destination "mdw"`},
		"dash in a code":    {header + "01010001,1,1,M-I,MDW\n", "f.csv:2: origin"},
		"long code":         {header + "01010001,1,1,MCI,MDWMDW\n", "f.csv:2: destination"},
		"quotes":            {header + good + good + "01010001,\"1,1,MCI,MDW\n", "f.csv:"},
		"zeros":             {header + strings.Repeat("\x00", 100), "f.csv:2: 1 columns"},
		"half a gzip":       {string(zipped(t, header+strings.Repeat(good, 100))[:60]), "f.csv: not readable"},
		"gzip magic alone":  {"\x1f\x8b", "f.csv: "},
		"damaged gzip":      {string(append(zipped(t, header+good)[:40], "nonsense nonsense"...)), "f.csv"},
	} {
		in, err := readInput("f.csv", strings.NewReader(tc.text))
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: %v, %v; want an error that begins with %q", name, in, err, tc.want)
		}
	}
}

func TestHeaderAloneIsAFile(t *testing.T) {
	if in, err := readInput("f.csv", strings.NewReader(header)); err != nil || len(in.flights) != 0 {
		t.Errorf("%v, %v", in, err)
	}
}

func FuzzReadInput(f *testing.F) {
	f.Add([]byte(header + "01010001,14,405,MCI,MDW\n"))
	f.Add([]byte("\x1f\x8b\x08"))
	f.Fuzz(func(t *testing.T, content []byte) {
		in, err := readInput("f", bytes.NewReader(content))
		if (in == nil) == (err == nil) {
			t.Fatalf("%v, %v", in, err)
		}
	})
}

func TestTheShippedFile(t *testing.T) {
	in, err := readInput(data.Name, bytes.NewReader(data.File))
	if err != nil {
		t.Fatal(err)
	}
	var flown flights.RouteCount
	for _, c := range in.routeCounts {
		flown.Flights += c.Flights
		flown.Miles += c.Miles
	}
	if len(in.flights) != 231_083 || flown.Flights != 231_083 || len(in.airports) != 59 || len(in.routes) != 668 {
		t.Errorf("%d flights, %d on routes, %d airports, %d routes", len(in.flights), flown.Flights, len(in.airports), len(in.routes))
	}
}

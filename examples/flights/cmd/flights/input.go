package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roost-cluster/roost/examples/flights"
)

// columns is the header every file must have.
var columns = []string{"date", "delay", "distance", "origin", "destination"}

// Limits of a row, far beyond any real flight.
const (
	maxDelay    = 100_000 // minutes; two months
	maxDistance = 100_000 // miles; four times around the earth
)

// flight is one row, with its airports and route as indexes into the input's
// lists.
type flight struct {
	line                       int32
	delay, distance            int32
	origin, destination, route int32
}

// input is a whole file, checked and counted.
type input struct {
	name string
	// digest identifies the uncompressed content: the first 64 bits of its SHA-256 in
	// hexadecimal. It is part of the idempotency keys.
	digest  string
	flights []flight

	// Counted directly, by the indexes in flights.
	airports      []string
	airportCounts []flights.AirportCount
	routes        []string
	routeCounts   []flights.RouteCount
}

// readInput reads flights from CSV, compressed with gzip or not. For a malformed row it
// returns an error with file, line and reason, so that no row of such a file is used.
func readInput(name string, from io.Reader) (*input, error) {
	plain := bufio.NewReaderSize(from, 1<<16)
	content := io.Reader(plain)
	if magic, _ := plain.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(plain)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		content = unzipped
	}
	digest := sha256.New()
	in := &input{name: name}
	if err := in.read(csv.NewReader(io.TeeReader(content, digest))); err != nil {
		return nil, err
	}
	in.digest = hex.EncodeToString(digest.Sum(nil)[:8])
	return in, nil
}

func (in *input) read(rows *csv.Reader) error {
	rows.FieldsPerRecord = -1 // checked below, with a better error
	rows.ReuseRecord = true
	c := counter{in: in, airports: map[string]int32{}, routes: map[[2]int32]int32{}}
	for header := true; ; header = false {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) && !header {
			return nil
		}
		if err != nil {
			return in.unreadable(rows, err)
		}
		line, _ := rows.FieldPos(0)
		if header {
			if !slices.Equal(row, columns) {
				return fmt.Errorf("%s:%d: the header is %.100q, it must be %q", in.name, line, row, columns)
			}
			continue
		}
		if reason := c.add(int32(line), row); reason != "" {
			return fmt.Errorf("%s:%d: %s", in.name, line, reason)
		}
	}
}

// unreadable returns the error for a file that ends early or is not CSV.
func (in *input) unreadable(rows *csv.Reader, err error) error {
	var malformed *csv.ParseError
	switch {
	case errors.As(err, &malformed):
		return fmt.Errorf("%s:%d: %w", in.name, malformed.Line, malformed.Err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s:1: the file is empty, it must begin with the header %q", in.name, columns)
	}
	return fmt.Errorf("%s: not readable after %d bytes of content: %w", in.name, rows.InputOffset(), err)
}

// counter adds rows to an input.
type counter struct {
	in       *input
	airports map[string]int32
	routes   map[[2]int32]int32
}

// add adds a row, or returns why it cannot.
func (c *counter) add(line int32, row []string) (reason string) {
	if len(row) != len(columns) {
		return fmt.Sprintf("%d columns, there must be %d", len(row), len(columns))
	}
	if !isDate(row[0]) {
		return fmt.Sprintf("date %.20q is not MMDDhhmm", row[0])
	}
	delay, err := strconv.ParseInt(row[1], 10, 32)
	if err != nil || delay < -maxDelay || delay > maxDelay {
		return fmt.Sprintf("delay %.20q is not a whole number of minutes from -%d to %d", row[1], maxDelay, maxDelay)
	}
	distance, err := strconv.ParseInt(row[2], 10, 32)
	if err != nil || distance < 0 || distance > maxDistance {
		return fmt.Sprintf("distance %.20q is not a whole number of miles from 0 to %d", row[2], maxDistance)
	}
	for i := 3; i < 5; i++ {
		if !isAirport(row[i]) {
			return fmt.Sprintf("%s %.20q is not an airport code: three or four of A-Z and 0-9", columns[i], row[i])
		}
	}
	from, to := c.airport(row[3]), c.airport(row[4])
	route := c.route(from, to)
	in := c.in
	in.flights = append(in.flights, flight{line, int32(delay), int32(distance), from, to, route})
	in.airportCounts[from].Departures++
	in.airportCounts[from].DepartureDelayMinutes += delay
	in.airportCounts[to].Arrivals++
	in.routeCounts[route].Flights++
	in.routeCounts[route].Miles += distance
	return ""
}

func (c *counter) airport(code string) int32 {
	i, known := c.airports[code]
	if !known {
		i = int32(len(c.in.airports))
		c.airports[code] = i
		c.in.airports = append(c.in.airports, code)
		c.in.airportCounts = append(c.in.airportCounts, flights.AirportCount{})
	}
	return i
}

func (c *counter) route(from, to int32) int32 {
	i, known := c.routes[[2]int32{from, to}]
	if !known {
		i = int32(len(c.in.routes))
		c.routes[[2]int32{from, to}] = i
		c.in.routes = append(c.in.routes, flights.RouteID(c.in.airports[from], c.in.airports[to]))
		c.in.routeCounts = append(c.in.routeCounts, flights.RouteCount{})
	}
	return i
}

// isDate reports whether s is MMDDhhmm. Some records write midnight as hour 24.
func isDate(s string) bool {
	if hours, midnight := strings.CutSuffix(s, "2400"); midnight {
		s = hours + "0000"
	}
	_, err := time.Parse("200601021504", "2000"+s) // a leap year, because the year is not known
	return err == nil && len(s) == len("MMDDhhmm")
}

func isAirport(s string) bool {
	if len(s) != 3 && len(s) != 4 {
		return false
	}
	for i := range len(s) {
		if (s[i] < 'A' || s[i] > 'Z') && (s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return true
}

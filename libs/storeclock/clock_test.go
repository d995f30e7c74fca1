package storeclock

import (
	"testing"
	"time"
)

// TestReadings: what is known of a store's clock after a second reading, which the store answered and which arrived later.
func TestReadings(t *testing.T) {
	const ms = time.Millisecond
	began := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		asked, arrived time.Duration // by the clock of the process; the first reading arrived at 0, and showed 1 hour
		store          time.Duration // what the second reading shows, after that hour
		want           time.Duration // what is known when it arrives
	}{
		"fast":                           {1000 * ms, 1002 * ms, 1001 * ms, 1001 * ms},
		"late":                           {1000 * ms, 4000 * ms, 1001 * ms, 3600 * ms}, // 10 % of 4 s may be drift
		"asked late":                     {1000 * ms, 4000 * ms, 3999 * ms, 3999 * ms},
		"late, and the clock runs ahead": {1000 * ms, 4000 * ms, 5000 * ms, 5000 * ms},
		"set back":                       {1000 * ms, 1002 * ms, -500 * ms, -500 * ms},
		"set back, and late":             {1000 * ms, 4000 * ms, -500 * ms, -500 * ms},
		"set forward":                    {1000 * ms, 1002 * ms, time.Hour, time.Hour},
		"drifts back":                    {1000 * ms, 1002 * ms, 950 * ms, 950 * ms},
	} {
		var clock Clock
		if got := clock.Now(began); clock.Known() || !got.Equal(began) {
			t.Fatalf("%s: a clock without a reading shows %s", name, got)
		}
		clock.Read(began.Add(-ms), began, began.Add(time.Hour))
		clock.Read(began.Add(c.asked), began.Add(c.arrived), began.Add(time.Hour+c.store))
		now := began.Add(c.arrived)
		if got := clock.Now(now).Sub(began.Add(time.Hour)); got != c.want {
			t.Errorf("%s: the clock shows %s, want %s", name, got, c.want)
		}
		if got := clock.Now(clock.When(now)); !got.Equal(now) {
			t.Errorf("%s: when it shows %s, it shows %s", name, now, got)
		}
	}
}

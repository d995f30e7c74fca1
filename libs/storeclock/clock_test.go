package storeclock

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestReadings: the knowledge of a store's clock after a second reading, which the store answered and which arrived later.
func TestReadings(t *testing.T) {
	const ms = time.Millisecond
	began := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		asked, arrived time.Duration // by the clock of the process; the first reading arrived at 0, and showed 1 hour
		store          time.Duration // what the second reading shows, after that hour
		want           time.Duration // the bounds when it arrives
		slack          time.Duration
	}{
		"fast":                           {1000 * ms, 1002 * ms, 1001 * ms, 1002 * ms, 1 * ms},
		"late":                           {1000 * ms, 4000 * ms, 1001 * ms, 4000 * ms, 1 * ms},
		"asked late":                     {1000 * ms, 4000 * ms, 3999 * ms, 4000 * ms, 1 * ms},
		"late, and the clock runs ahead": {1000 * ms, 4000 * ms, 5000 * ms, 5000 * ms, 0},
		"late, after 15 seconds":         {15000 * ms, 16000 * ms, 15000 * ms, 16000 * ms, 0},
		"set back":                       {1000 * ms, 1002 * ms, -500 * ms, -498 * ms, 0},
		"set back, and late":             {1000 * ms, 4000 * ms, -500 * ms, 2500 * ms, 0},
		"set forward":                    {1000 * ms, 1002 * ms, time.Hour, time.Hour, 0},
		"drifts back":                    {1000 * ms, 1002 * ms, 950 * ms, 952 * ms, 0},
	} {
		var clock Clock
		if got := clock.Now(began); clock.Known() || !got.Equal(began) || !clock.Latest(began).Equal(began) {
			t.Fatalf("%s: a clock without a reading shows %s", name, got)
		}
		clock.Read(began.Add(-ms), began, began.Add(time.Hour))
		clock.Read(began.Add(c.asked), began.Add(c.arrived), began.Add(time.Hour+c.store))
		now := began.Add(c.arrived)
		if got := clock.Now(now).Sub(began.Add(time.Hour)); got != c.want {
			t.Errorf("%s: the clock shows %s, want %s", name, got, c.want)
		}
		if got := clock.Latest(now).Sub(clock.Now(now)); got != c.slack {
			t.Errorf("%s: the latest time is %s later, want %s", name, got, c.slack)
		}
		if got := clock.Now(clock.When(now)); !got.Equal(now) {
			t.Errorf("%s: when it shows %s, it shows %s", name, now, got)
		}
	}
}

// TestTheTimeIsBetween: whatever the readings take, the clock of the store is between the two times, and no reading makes
// them worse.
func TestTheTimeIsBetween(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		now, ahead := time.Unix(1000, 0), time.Duration(r.Int64N(int64(time.Hour)))-30*time.Minute
		var clock Clock
		slack := time.Duration(-1)
		for range 50 {
			asked := now.Add(time.Duration(r.Int64N(int64(20 * time.Second))))
			answered := asked.Add(time.Duration(r.Int64N(1 + r.Int64N(int64(10*time.Second)))))
			now = answered.Add(time.Duration(r.Int64N(1 + r.Int64N(int64(10*time.Second)))))
			clock.Read(asked, now, answered.Add(ahead))
			earliest, latest, is := clock.Now(now), clock.Latest(now), now.Add(ahead)
			if is.Before(earliest) || is.After(latest) {
				t.Fatalf("the store's clock shows %s, which is not between %s and %s", is, earliest, latest)
			}
			if width := latest.Sub(earliest); slack >= 0 && width > slack {
				t.Fatalf("a reading has made a slack of %s one of %s", slack, width)
			} else {
				slack = width
			}
		}
	}
}

// TestAhead: a reading proves its offset, and a slow reading proves none.
func TestAhead(t *testing.T) {
	const ms = time.Millisecond
	now := time.Unix(1000, 0)
	for _, c := range []struct{ took, store, want time.Duration }{
		{2 * ms, 0, 0},
		{2 * ms, -1 * ms, 0},
		{1200 * ms, -1200 * ms, 0}, // read at once, and then a long way
		{1200 * ms, 0, 0},
		{1200 * ms, -1500 * ms, -300 * ms},
		{1200 * ms, 700 * ms, 700 * ms},
	} {
		var clock Clock
		clock.Read(now.Add(-c.took), now, now.Add(c.store))
		if got := clock.Ahead(now); got != c.want {
			t.Errorf("%+v: ahead by %s", c, got)
		}
		if got := clock.Ahead(now.Add(time.Hour)); got != c.want {
			t.Errorf("%+v: ahead by %s an hour later", c, got)
		}
	}
	var none Clock
	if got := none.Ahead(now); got != 0 {
		t.Errorf("without a reading: %s", got)
	}
}

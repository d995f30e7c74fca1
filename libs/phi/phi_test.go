package phi

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

type op struct {
	Op       string
	At       int64 `json:"at_ms"`
	Resource string
	Expect   json.RawMessage
	Tol      float64
	Gt, Lt   *float64
	EqualsOp *int  `json:"equals_op"`
	From     int64 `json:"from_ms"`
	Every    int64 `json:"every_ms"`
	Count    int
}

type params struct {
	Threshold *float64
	MaxSample *int   `json:"max_sample"`
	MinStd    *int64 `json:"min_std"`
	Pause     *int64
	First     *int64
	Interval  *int64 // of a deadline
}

func millis(n *int64) time.Duration { return time.Duration(*n) * time.Millisecond }

type vector struct {
	ID, Kind, Name   string
	Diff             float64 `json:"time_diff_ms"`
	Mean             float64 `json:"mean_ms"`
	Std              float64 `json:"std_ms"`
	CDF, Phi, Tol    float64
	TolRel           float64   `json:"tol_rel"`
	TolAbs           float64   `json:"tol_abs"`
	Diffs            []float64 `json:"time_diffs_ms"`
	Less, Greater    *point
	Params           params
	Ops              []op
	Samples          []int64 `json:"samples_ms"`
	MaxSampleSize    int     `json:"max_sample_size"`
	MeanWant         float64 `json:"mean"`
	Variance         float64
	Heartbeats       int
	Every            int64 `json:"every_ms"`
	UnavailableAfter int64 `json:"unavailable_after_ms"`
}

// point is one value of phi.
type point struct {
	Diff float64 `json:"time_diff_ms"`
	Mean float64 `json:"mean_ms"`
	Std  float64 `json:"std_ms"`
}

func (p *point) phi() float64 { return Of(p.Diff, p.Mean, p.Std) }

func TestVectors(t *testing.T) {
	for _, c := range archtest.Vectors(t, "phi.json") {
		t.Run(c.Name, func(t *testing.T) {
			var v vector
			c.Decode(t, &v)
			runVector(t, v)
		})
	}
}

func runVector(t *testing.T, v vector) {
	near := func(what string, got, want, tol float64) {
		if !(math.Abs(got-want) <= tol) {
			t.Errorf("%s %s: got %v, want %v within %v", v.Name, what, got, want, tol)
		}
	}
	switch v.Kind {
	case "cdf":
		near("cdf", 1-math.Pow(10, -Of(v.Diff, v.Mean, v.Std)), v.CDF, v.Tol)
	case "phi":
		near("phi", Of(v.Diff, v.Mean, v.Std), v.Phi, v.Tol)
	case "phi_exact":
		near("phi", Of(v.Diff, v.Mean, v.Std), v.Phi, v.TolAbs+v.TolRel*v.Phi)
	case "monotone":
		last := -1.0
		for _, d := range v.Diffs {
			phi := Of(d, v.Mean, v.Std)
			if phi <= last {
				t.Errorf("phi(%v) = %v is not above %v", d, phi, last)
			}
			last = phi
		}
		if v.Less != nil && v.Less.phi() >= v.Greater.phi() {
			t.Errorf("phi%v is not below phi%v", *v.Less, *v.Greater)
		}
		if v.Less == nil && len(v.Diffs) < 2 {
			t.Error("there is nothing to compare")
		}
	case "history":
		var h history
		for _, s := range v.Samples {
			h.add(s, v.MaxSampleSize)
		}
		mean, variance := h.moments()
		near("mean", mean, v.MeanWant, v.Tol)
		near("variance", variance, v.Variance, v.Tol)
	case "sequence":
		runSequence(t, v, func() Detector { return New(v.Params.config()) })
	case "deadline_sequence":
		cfg := DeadlineConfig{Interval: millis(v.Params.Interval), Pause: millis(v.Params.Pause)}
		runSequence(t, v, func() Detector { return NewDeadline(cfg) })
	case "detection_time":
		d := New(v.Params.config())
		for i := range v.Heartbeats {
			d.Heartbeat(at(int64(i) * v.Every))
		}
		last := int64(v.Heartbeats-1) * v.Every
		after := int64(0)
		for d.Available(at(last + after)) {
			after++
		}
		near("detection", float64(after), float64(v.UnavailableAfter), 0)
	default:
		t.Fatalf("unknown kind %q", v.Kind)
	}
}

func at(ms int64) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }

func (p params) config() Config {
	c := DefaultConfig()
	c.Pause = 0
	if p.Threshold != nil {
		c.Threshold = *p.Threshold
	}
	if p.MaxSample != nil {
		c.MaxSamples = *p.MaxSample
	}
	for _, f := range []struct {
		from *int64
		to   *time.Duration
	}{{p.MinStd, &c.MinStdDev}, {p.Pause, &c.Pause}, {p.First, &c.FirstInterval}} {
		if f.from != nil {
			*f.to = millis(f.from)
		}
	}
	return c
}

func runSequence(t *testing.T, v vector, fresh func() Detector) {
	peers := map[string]*Detector{}
	results := make([]float64, len(v.Ops))
	peer := func(name string) *Detector {
		if peers[name] == nil {
			d := fresh()
			peers[name] = &d
		}
		return peers[name]
	}
	for i, o := range v.Ops {
		d := peer(o.Resource)
		switch o.Op {
		case "heartbeat":
			d.Heartbeat(at(o.At))
		case "heartbeats_every":
			for n := range o.Count {
				d.Heartbeat(at(o.From + int64(n)*o.Every))
			}
		case "remove":
			delete(peers, o.Resource)
		case "phi":
			results[i] = d.Phi(at(o.At))
			checkPhi(t, i, o, results)
		case "is_available", "is_monitoring":
			got := d.Monitoring()
			if o.Op == "is_available" {
				got = d.Available(at(o.At))
			}
			if want := string(o.Expect) == "true"; got != want {
				t.Errorf("op %d %s at %d: got %v", i, o.Op, o.At, got)
			}
		default:
			t.Fatalf("unknown op %q", o.Op)
		}
	}
}

func checkPhi(t *testing.T, i int, o op, results []float64) {
	got := results[i]
	if o.Expect != nil {
		var want float64
		if err := json.Unmarshal(o.Expect, &want); err != nil {
			t.Fatal(err)
		}
		if math.Abs(got-want) > o.Tol {
			t.Errorf("op %d: phi is %v, want %v", i, got, want)
		}
	}
	if o.Gt != nil && got <= *o.Gt || o.Lt != nil && got >= *o.Lt {
		t.Errorf("op %d: phi is %v", i, got)
	}
	if o.EqualsOp != nil && math.Abs(got-results[*o.EqualsOp]) > o.Tol {
		t.Errorf("op %d: phi is %v, want the one of op %d: %v", i, got, *o.EqualsOp, results[*o.EqualsOp])
	}
}

// TestRestart: a pause of the observer makes no peer unavailable, and is not remembered as
// an interval.
func TestRestart(t *testing.T) {
	d := New(DefaultConfig())
	for i := range int64(10) {
		d.Heartbeat(at(i * 1000))
	}
	if d.Available(at(60_000)) {
		t.Fatal("a silence of 51 s goes unnoticed")
	}
	before := d.Clone()
	d.Restart(at(60_000))
	if !d.Available(at(61_000)) {
		t.Error("suspected one second after the restart")
	}
	if before.Available(at(61_000)) {
		t.Error("clone restarted too")
	}
	m1, v1 := before.history.moments()
	if m2, v2 := d.history.moments(); m1 != m2 || v1 != v2 {
		t.Errorf("restart changed the history: %v %v, was %v %v", m2, v2, m1, v1)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []Config{DefaultConfig(), CloudConfig()} {
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	}
	if CloudConfig().Threshold != 12 {
		t.Error("the threshold for clouds is not 12")
	}
	if err := (DeadlineConfig{Interval: time.Second}).Validate(); err != nil {
		t.Error(err)
	}
	for field, spoil := range map[string]func(*Config){
		"Threshold":     func(c *Config) { c.Threshold = math.NaN() },
		"MaxSamples":    func(c *Config) { c.MaxSamples = 1 << 20 },
		"MinStdDev":     func(c *Config) { c.MinStdDev = 0 },
		"Pause":         func(c *Config) { c.Pause = -1 },
		"FirstInterval": func(c *Config) { c.FirstInterval = 2 * time.Hour },
	} {
		c := DefaultConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), field) || strings.Contains(err.Error(), "\n") {
			t.Errorf("a bad %s gives %v", field, err)
		}
	}
	if err := (DeadlineConfig{Pause: -1}).Validate(); err == nil || !strings.Contains(err.Error(), "Interval") || !strings.Contains(err.Error(), "Pause") {
		t.Errorf("a bad deadline gives %v", err)
	}
}

func TestStateIsCanonical(t *testing.T) {
	mk := func(shift time.Duration) []byte {
		d := New(DefaultConfig())
		for i := range int64(5) {
			d.Heartbeat(at(i * 900).Add(shift))
		}
		return d.AppendState(nil, at(5000).Add(shift))
	}
	if string(mk(0)) != string(mk(time.Hour)) {
		t.Error("the same history an hour later has another state")
	}
}

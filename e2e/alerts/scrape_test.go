package alerts

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	launcher "github.com/roost-cluster/roost/cli/cluster"
)

// sample is one series with its value.
type sample struct {
	key    string // of the labels
	labels labels.Labels
	value  float64
}

// scrape holds the exposed values of all processes of a cluster at a moment.
type scrape []sample

// sum adds up the values of a metric, whose labels have the given values: name, value, …
func (s scrape) sum(metric string, of ...string) (sum float64) {
	s.each(metric, of, func(x *sample) { sum += x.value })
	return sum
}

// has reports whether a metric has a series.
func (s scrape) has(metric string, of ...string) (has bool) {
	s.each(metric, of, func(*sample) { has = true })
	return has
}

func (s scrape) each(metric string, of []string, f func(*sample)) {
series:
	for i := range s {
		if s[i].labels.Get(model.MetricNameLabel) != metric {
			continue
		}
		for j := 0; j < len(of); j += 2 {
			if s[i].labels.Get(of[j]) != of[j+1] {
				continue series
			}
		}
		f(&s[i])
	}
}

// scrapeAll scrapes all processes as Prometheus does: each series gets the name of the process as
// its instance, and the series "up" reports whether the process has answered.
func scrapeAll(t *testing.T, processes []launcher.Process) (all scrape) {
	t.Helper()
	parts := make([]scrape, len(processes))
	var group sync.WaitGroup
	for i, p := range processes {
		group.Go(func() {
			part, err := scrapeOne(p)
			up := 1.0
			if err != nil {
				part, up = nil, 0
			}
			parts[i] = append(part, newSample(p.Name, labels.FromStrings(model.MetricNameLabel, "up"), up))
		})
	}
	group.Wait()
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

func newSample(instance string, l labels.Labels, value float64) sample {
	b := labels.NewBuilder(l)
	b.Set("instance", instance)
	b.Set("job", "roost")
	l = b.Labels()
	return sample{l.String(), l, value}
}

// scrapeTimeout bounds the answer of a process; one that is paused takes forever.
const scrapeTimeout = 2 * time.Second

func scrapeOne(p launcher.Process) (of scrape, err error) {
	client := http.Client{Timeout: scrapeTimeout}
	res, err := client.Get("http://" + p.Management + "/metrics")
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	text, err := textparse.New(raw, res.Header.Get("Content-Type"), labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return nil, err
	}
	for {
		entry, err := text.Next()
		if errors.Is(err, io.EOF) {
			return of, nil
		}
		if err != nil {
			return nil, err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		text.Labels(&l)
		_, _, value := text.Series()
		of = append(of, newSample(p.Name, l, value))
	}
}

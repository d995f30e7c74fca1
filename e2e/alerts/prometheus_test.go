package alerts

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

const (
	rulesFile = "../../deploy/alerts/roost.yaml"
	// interval is the virtual time between two scrapes, and between two evaluations.
	interval = 30 * time.Second
)

var promQL = parser.NewParser(parser.Options{})

// readRules returns the rules as Prometheus reads them.
func readRules(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.LegacyValidation, promQL, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		t.FailNow()
	}
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// prometheus is a database with the rules and the engine that evaluates them, in virtual time.
type prometheus struct {
	*testing.T
	db     *tsdb.DB
	engine *promql.Engine
	rules  []*rules.AlertingRule
	now    time.Time
	live   map[string]labels.Labels // the series of the last scrape
	firing map[string]bool          // alerts
	// names are the metrics that the rules use. The others are not stored, to save time.
	names map[string]bool
}

func newPrometheus(t *testing.T) *prometheus {
	t.Helper()
	dir, err := os.MkdirTemp("", "alerts")
	if err != nil {
		t.Fatal(err)
	}
	opts := tsdb.DefaultOptions()
	opts.MinBlockDuration = (1000 * time.Hour).Milliseconds() // nothing is written to blocks
	opts.MaxBlockDuration = opts.MinBlockDuration
	log := slog.New(slog.DiscardHandler)
	db, err := tsdb.Open(dir, log, nil, opts, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	p := &prometheus{
		T: t, db: db, now: time.Unix(1_700_000_000, 0), live: map[string]labels.Labels{}, firing: map[string]bool{}, names: map[string]bool{},
		engine: promql.NewEngine(promql.EngineOpts{Logger: log, MaxSamples: 1e8, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: promQL}),
	}
	for _, r := range readRules(t) {
		expr, err := promQL.ParseExpr(r.Expr)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range selectors(expr) {
			p.names[v.Name] = true
		}
		p.rules = append(p.rules, rules.NewAlertingRule(r.Alert, expr, time.Duration(r.For), time.Duration(r.KeepFiringFor),
			labels.FromMap(r.Labels), labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, log))
	}
	return p
}

// selectors returns what an expression selects.
func selectors(expr parser.Expr) (all []*parser.VectorSelector) {
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			all = append(all, v)
		}
		return nil
	})
	return all
}

// store stores one scrape at the present virtual time. A series that is no longer there ends, as it
// does in Prometheus.
func (p *prometheus) store(s scrape) {
	p.Helper()
	app := p.db.Appender(p.Context())
	add := func(l labels.Labels, v float64) {
		if _, err := app.Append(0, l, p.now.UnixMilli(), v); err != nil {
			p.Fatalf("%s: %v", l, err)
		}
	}
	live := make(map[string]labels.Labels, len(s))
	for _, x := range s {
		if !p.names[x.labels.Get(model.MetricNameLabel)] {
			continue
		}
		live[x.key] = x.labels
		add(x.labels, x.value)
	}
	for key, l := range p.live {
		if _, still := live[key]; !still {
			add(l, valueStale)
		}
	}
	p.live = live
	if err := app.Commit(); err != nil {
		p.Fatal(err)
	}
}

// valueStale ends a series.
var valueStale = math.Float64frombits(value.StaleNaN)

// hold keeps the values of a scrape for a virtual time, evaluates the rules meanwhile, and returns
// the alerts that were firing at any time.
func (p *prometheus) hold(s scrape, d time.Duration) []string {
	p.Helper()
	fired := map[string]bool{}
	for end := p.now.Add(d); p.now.Before(end); {
		p.now = p.now.Add(interval)
		p.store(s)
		p.evaluate()
		maps.Copy(fired, p.firing)
	}
	return slices.Sorted(maps.Keys(fired))
}

// evaluate evaluates all rules now.
func (p *prometheus) evaluate() {
	p.Helper()
	p.firing = map[string]bool{}
	query := rules.EngineQueryFunc(p.engine, p.db)
	for _, r := range p.rules {
		if _, err := r.Eval(p.Context(), 0, p.now, query, &url.URL{}, 0); err != nil {
			p.Fatalf("%s: %v", r.Name(), err)
		}
		for _, a := range r.ActiveAlerts() {
			if a.State != rules.StateFiring {
				continue
			}
			p.firing[r.Name()] = true
			a.Annotations.Range(func(l labels.Label) {
				if strings.Contains(l.Value, "error expanding") || strings.Contains(l.Value, "no value") || strings.Contains(l.Value, "cluster  ") || strings.HasSuffix(l.Value, " cluster ") {
					p.Errorf("%s: %s is %q", r.Name(), l.Name, l.Value)
				}
			})
		}
	}
}

// query evaluates an expression now, and returns how many series it has.
func (p *prometheus) query(ctx context.Context, expr string) (int, error) {
	q, err := p.engine.NewInstantQuery(ctx, p.db, nil, expr, p.now)
	if err != nil {
		return 0, err
	}
	defer q.Close()
	switch r := q.Exec(ctx); v := r.Value.(type) {
	case promql.Vector:
		return len(v), r.Err
	case promql.Scalar:
		return 1, r.Err
	default:
		return 0, r.Err
	}
}

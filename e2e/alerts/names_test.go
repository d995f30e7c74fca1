package alerts

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	boardFile = "../../deploy/grafana/roost.json"
	pageFile  = "../../docs/running/alerts.md"
)

// board holds the parts of the board that the test reads.
type board struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct {
			Name  string
			Query any
		}
	}
}

// question is an expression that the rules or the board have.
type question struct{ of, expr, legend string }

// questions returns the queries of the rules, and of the board with its variables replaced as
// Grafana does.
func questions(t *testing.T) (ofRules, ofBoard []question) {
	t.Helper()
	for _, r := range readRules(t) {
		ofRules = append(ofRules, question{of: r.Alert, expr: r.Expr})
	}
	raw, err := os.ReadFile(boardFile)
	if err != nil {
		t.Fatal(err)
	}
	var b board
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "2m", "$cluster", "dev")
	for _, p := range b.Panels {
		for _, target := range p.Targets {
			ofBoard = append(ofBoard, question{"panel " + p.Title, variables.Replace(target.Expr), target.LegendFormat})
		}
	}
	if len(ofRules) == 0 || len(ofBoard) == 0 {
		t.Fatal("no rules, or no panels")
	}
	return ofRules, ofBoard
}

// exposed has the labels of each metric, and the values of each label.
type exposed map[string]map[string]map[string]bool

func expose(s scrape) exposed {
	e := exposed{}
	for _, x := range s {
		name := x.labels.Get(model.MetricNameLabel)
		if e[name] == nil {
			e[name] = map[string]map[string]bool{}
		}
		x.labels.Range(func(l labels.Label) {
			if e[name][l.Name] == nil {
				e[name][l.Name] = map[string]bool{}
			}
			e[name][l.Name][l.Value] = true
		})
	}
	return e
}

// check returns the names in an expression that no process exposes.
func (e exposed) check(q question) (problems []string) {
	expr, err := promQL.ParseExpr(q.expr)
	if err != nil {
		return []string{err.Error()}
	}
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	used := map[string]bool{} // labels of any metric of the expression
	for _, v := range selectors(expr) {
		have, ok := e[v.Name]
		if !ok {
			wrong("no process exposes %s", v.Name)
			continue
		}
		for label := range have {
			used[label] = true
		}
		for _, m := range v.LabelMatchers {
			switch {
			case m.Name == model.MetricNameLabel:
			case have[m.Name] == nil:
				wrong("%s has no label %s", v.Name, m.Name)
			case m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp:
				if !slices.ContainsFunc(keys(have[m.Name]), m.Matches) {
					wrong("%s: no value of %s matches %s", v.Name, m.Name, m.Value)
				}
			}
		}
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		var by []string
		inside := n
		switch n := n.(type) {
		case *parser.AggregateExpr:
			by, inside = n.Grouping, n.Expr
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				by = n.VectorMatching.MatchingLabels
			}
		}
		for _, label := range by {
			for _, v := range selectors(inside.(parser.Expr)) {
				if have, ok := e[v.Name]; ok && have[label] == nil {
					wrong("%s has no label %s", v.Name, label)
				}
			}
		}
		return nil
	})
	for _, m := range placeholder.FindAllStringSubmatch(q.legend, -1) {
		if !used[m[1]] {
			wrong("the legend names the label %s, which no metric of %s has", m[1], q.expr)
		}
	}
	return problems
}

var placeholder = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

func keys(m map[string]bool) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	return all
}

// TestNames: whatever the rules and the board name exists in what real processes expose, before the
// first command: a series that begins with its first event would hide that event. Once commands have
// come, each panel shows something.
func TestNames(t *testing.T) {
	ofRules, ofBoard := questions(t)
	c, _ := startTLS(t)
	// A gateway has no series of a type until it knows the type.
	first := c.seen("the gateway knows the types", func(s scrape) bool {
		return s.has("roost_gateway_request_duration_seconds_count", "roost_entity_type", "List")
	})
	e := expose(first)
	for _, q := range append(ofRules, ofBoard...) {
		for _, problem := range e.check(q) {
			t.Errorf("%s: %s", q.of, problem)
		}
	}
	for name := range e {
		if strings.HasPrefix(name, "roost_") && strings.HasSuffix(name, "_ratio") {
			t.Errorf("%s: only a metric of the unit 1 is called a ratio; give it its unit", name)
		}
	}

	p := c.prometheus
	for name := range e {
		p.names[name] = true
	}
	p.hold(first, 2*time.Minute)
	c.work(100, 10*time.Second, lists)
	p.hold(c.scrape(), 2*time.Minute)
	for _, q := range ofBoard {
		n, err := p.query(t.Context(), q.expr)
		if err != nil {
			t.Errorf("%s: %v", q.of, err)
		}
		if n == 0 && !strings.Contains(q.expr, "gomemlimit") { // the processes have no limit
			t.Errorf("%s shows nothing: %s", q.of, q.expr)
		}
	}
}

// TestCheckOfNames: the check sees what is wrong.
func TestCheckOfNames(t *testing.T) {
	e := expose(scrape{newSample("p", labels.FromStrings(model.MetricNameLabel, "a", "x", "1"), 0)})
	for expr, want := range map[string]string{
		"sum by (x) (a)":                     "",
		"sum by (x, instance) (rate(a[5m]))": "",
		"b":                                  "no process exposes b",
		`a{y="1"}`:                           "a has no label y",
		`a{x="2"}`:                           "a: no value of x matches 2",
		`a{x!="2"}`:                          "",
		"sum by (y) (a)":                     "a has no label y",
		"a and on (y) a":                     "a has no label y",
	} {
		got := ""
		if problems := e.check(question{expr: expr}); len(problems) > 0 {
			got = problems[0]
		}
		if got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
	if len(e.check(question{expr: "a", legend: "{{y}}"})) == 0 {
		t.Error("a legend with an unknown label is taken")
	}
}

// TestPage: each alert has its section of the page, and links to it; the page has no others.
func TestPage(t *testing.T) {
	raw, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		if title, ok := strings.CutPrefix(line, "## Roost"); ok {
			sections["Roost"+strings.TrimSpace(title)] = true
		}
	}
	for _, r := range readRules(t) {
		for _, key := range []string{"summary", "description", "what_to_do"} {
			if r.Annotations[key] == "" {
				t.Errorf("%s has no annotation %s", r.Alert, key)
			}
		}
		if want := "docs/running/alerts.md#" + strings.ToLower(r.Alert); r.Annotations["what_to_do"] != want {
			t.Errorf("%s: what_to_do is %q, want %q", r.Alert, r.Annotations["what_to_do"], want)
		}
		if !sections[r.Alert] {
			t.Errorf("docs/running/alerts.md has no section %s", r.Alert)
		}
		delete(sections, r.Alert)
	}
	for title := range sections {
		t.Errorf("docs/running/alerts.md has a section %s, and there is no such alert", title)
	}
}

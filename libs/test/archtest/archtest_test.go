package archtest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestImpurities(t *testing.T) {
	source, err := os.ReadFile("testdata/impure/impure.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for number, line := range strings.Split(string(source), "\n") {
		if _, what, ok := strings.Cut(line, "// want "); ok {
			want = append(want, fmt.Sprintf("%d: %s", number+1, what))
		}
	}
	var got []string
	for _, finding := range impurities("testdata/impure") {
		parts := strings.SplitN(finding, ":", 4)
		if len(parts) < 4 {
			t.Fatalf("finding without a position: %s", finding)
		}
		what, _, _ := strings.Cut(strings.TrimPrefix(parts[3], " a pure core "), ":")
		got = append(got, parts[1]+": "+what)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, nothing := range []string{"testdata/impure/other*.go", "testdata/absent", "testdata"} {
		if len(impurities(nothing)) == 0 {
			t.Errorf("%s passes, although there is nothing to check", nothing)
		}
	}
	if len(impurities("testdata/impure", "impure.go")) == 0 {
		t.Error("a package passes whose files are all left out")
	}
}

// TestImpureFiles: a file that is left out must exist, in a package that is checked, and
// must not be pure.
func TestImpureFiles(t *testing.T) {
	for _, c := range []struct {
		file string
		want string // a part of the finding; nothing if it is empty
	}{
		{"testdata/mixed/driver.go", ""},
		{"testdata/mixed/core.go", "driver.go:5"},
		{"testdata/mixed/other.go", "missing"},
		{"testdata/impure/impure.go", "is in no package of Pure"},
	} {
		findings := purity(Rules{Pure: []string{"testdata/mixed"}, Impure: []string{c.file}})
		if got := strings.Join(findings, "\n"); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", c.file, got, c.want)
		}
	}
	findings := purity(Rules{Pure: []string{"testdata/mixed"}, Impure: []string{"testdata/mixed/driver.go", "testdata/mixed/core.go"}})
	if got := strings.Join(findings, "\n"); !strings.Contains(got, "core.go is pure") {
		t.Errorf("a core among the impure files: %q", got)
	}
}

// TestUnusedRules: a line that nothing needs is found.
func TestUnusedRules(t *testing.T) {
	t.Chdir("testdata/importer")
	used := func() Rules {
		return Rules{
			May:     map[string][]string{".": {"libs/sharding", "libs/gossip/..."}},
			Never:   []string{"services/..."},
			Outside: []string{"example.com/x"},
		}
	}
	for name, c := range map[string]struct {
		change func(*Rules)
		want   string
	}{
		"nothing":                  {func(*Rules) {}, ""},
		"a package without code":   {func(r *Rules) { r.May["gone/..."] = nil }, "gone/..."},
		"a line that never counts": {func(r *Rules) { r.May["..."] = nil }, "line for ..."},
		"an import":                {func(r *Rules) { r.May["."] = append(r.May["."], "libs/passivation") }, "libs/passivation"},
		"a tree":                   {func(r *Rules) { r.May["."] = append(r.May["."], "proto/...") }, "proto/..."},
		"others' module":           {func(r *Rules) { r.Outside = append(r.Outside, "example.com/y") }, "example.com/y"},
		"what is forbidden":        {func(r *Rules) { r.Never = append(r.Never, "servicez/...") }, "servicez/..."},
	} {
		rules := used()
		c.change(&rules)
		got := strings.Join(append(layers([]string{"."}, rules), absent(rules.Never)...), "\n")
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestLayers(t *testing.T) {
	// The package itself is the test case: it imports only the standard
	// library, and so does its testdata.
	for _, test := range []struct {
		name, path string
		test       bool
		rules      Rules
		want       bool
	}{
		{"standard library", "net/http", false, Rules{Outside: []string{}}, true},
		{"a layer below", Prefix + "libs/sharding", false, Rules{}, true},
		{"a tree below", Prefix + "libs/gossip/agent", false, Rules{}, true},
		{"a name that only starts alike", Prefix + "libs/gossiptest", false, Rules{}, false},
		{"beside", Prefix + "libs/turn", false, Rules{}, false},
		{"beside, in a test", Prefix + "libs/turn", true, Rules{}, true},
		{"never, in a test", Prefix + "services/region", true, Rules{Never: []string{"services/..."}}, false},
		{"outside, any", "example.com/x", false, Rules{}, true},
		{"outside, listed", "example.com/x/y", false, Rules{Outside: []string{"example.com/x"}}, true},
		{"outside, not listed", "example.com/xx", false, Rules{Outside: []string{"example.com/x"}}, false},
		{"outside, in a test", "example.com/xx", true, Rules{Outside: []string{}}, true},
	} {
		may := []string{"libs/sharding", "libs/gossip/..."}
		if why := forbidden(test.path, may, test.test, test.rules); (why == "") != test.want {
			t.Errorf("%s: forbidden(%s) = %q", test.name, test.path, why)
		}
	}
	if findings := layers([]string{"."}, Rules{}); len(findings) != 1 || !strings.Contains(findings[0], "no layer") {
		t.Errorf("a package without a layer: %q", findings)
	}
}

func TestLookup(t *testing.T) {
	may := map[string][]string{"a/...": {"tree"}, "a/b": {"exact"}, "a/b/c/...": {"deeper"}, ".": {"root"}}
	for dir, want := range map[string]string{"a": "tree", "a/x": "tree", "a/b": "exact", "a/b/d": "tree", "a/b/c/d": "deeper", ".": "root", "z": ""} {
		got, ok := lookup(may, dir)
		if ok != (want != "") || ok && may[got][0] != want {
			t.Errorf("lookup(%s) = %v, %v; want the line of %q", dir, got, ok, want)
		}
	}
}

func TestUndocumented(t *testing.T) {
	findings := undocumented([]string{".", "testdata/impure"})
	if len(findings) != 1 || !strings.Contains(findings[0], "impure") {
		t.Errorf("got %q, want only testdata/impure", findings)
	}
}

func TestLongMessages(t *testing.T) {
	findings := strings.Join(longMessages([]string{".", "testdata/logs"}), "\n")
	for _, want := range []string{"logs.go:12:11: the log message has more than 8 words", "logs.go:13:14: the log message is not constant", "logs.go:14:49: the log message has more than 8 words"} {
		if !strings.Contains(findings, want) {
			t.Errorf("not found: %s", want)
		}
	}
	if n := strings.Count(findings, "\n") + 1; n != 3 {
		t.Errorf("%d findings, want 3:\n%s", n, findings)
	}
}

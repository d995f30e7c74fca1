package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var services = []string{"coordinator", "region", "gateway"}

// keysOf are the keys of every service, as its help lists them.
func keysOf(t *testing.T) map[string][]string {
	t.Helper()
	keys := map[string][]string{}
	for _, service := range services {
		for _, s := range settingsOf(t, service) {
			keys[service] = append(keys[service], s.key)
		}
	}
	return keys
}

// notKeys look like keys in a text and are something else.
var notKeys = map[string]bool{
	"service.name": true, "service.version": true, "service.instance": true, "http.route": true, "http.request": true, "http.response": true, // OpenTelemetry's attributes
	"memory.max": true, "memory.stat": true, "memory.limit_in_bytes": true, // files of control groups
	"journal.append": true,                                                                                                                                           // a span
	"cluster.json":   true, "journal.db": true, "lease.db": true, "discovery.md": true, "memory.md": true, "health.md": true, "http.md": true, "gateway.proto": true, // files
	"discovery.k8s": true, "coordinator.prod": true, "tls.crt": true, // names of Kubernetes
}

// Every configuration key and variable that a text of the program names exists:
// an error that names a key to change must not send people looking for one.
func TestTextsNameRealKeys(t *testing.T) {
	all := map[string]bool{}
	sections, prefixes := map[string]bool{}, map[string]bool{}
	for _, keys := range keysOf(t) {
		for _, key := range keys {
			all[key] = true
			section, _, _ := strings.Cut(key, ".")
			sections[section] = true
			for prefix := key; strings.Contains(prefix, "."); prefix = prefix[:strings.LastIndex(prefix, ".")] {
				prefixes[prefix] = true // itself, and such as region.sends
			}
		}
	}
	keyLike := regexp.MustCompile(`(^|[^a-zA-Z0-9_.-])(--)?([a-z]+)\.([a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)*)\b`)
	variable := regexp.MustCompile(`ROOST_[A-Z0-9_]*[A-Z0-9]`)
	commandNames := []string{"ROOST_ADMIN", "ROOST_ADMIN_TOKEN", "ROOST_CA", "ROOST_CERT", "ROOST_KEY", "ROOST_DIR", "ROOST_GATEWAY", "ROOST_TOKEN", "ROOST_CONFIG", "ROOST_PARENT_PIPE", "ROOST_TOOL_STATUS"}
	check := func(where, text string) {
		for _, m := range keyLike.FindAllStringSubmatch(text, -1) {
			name := m[3] + "." + strings.ReplaceAll(m[4], "-", "_")
			first, _, _ := strings.Cut(m[4], ".")
			if sections[m[3]] && !prefixes[name] && !notKeys[m[3]+"."+first] {
				t.Errorf("%s names %s, which is not a key", where, name)
			}
		}
		for _, name := range variable.FindAllString(text, -1) {
			key := strings.ToLower(strings.TrimPrefix(strings.TrimSuffix(name, "_FILE"), "ROOST_"))
			known := slices.Contains(commandNames, name) || slices.ContainsFunc(sorted(all), func(k string) bool {
				return strings.ReplaceAll(k, ".", "_") == key
			})
			if !known {
				t.Errorf("%s names %s, which is not a variable", where, name)
			}
		}
		// Fields of structs are no keys either, in whatever spelling.
		if m := raise.FindStringSubmatch(text); m != nil && !all[m[2]] {
			t.Errorf("%s says %q, which is not a key", where, m[0])
		}
	}
	for _, service := range services { // with what {.name} in a text has become
		for _, s := range settingsOf(t, service) {
			check("the help of "+s.key, s.help)
		}
	}
	texts, relative := 0, 0
	for _, module := range []string{"libs", "services", "sdk", "cli"} {
		err := filepath.WalkDir(filepath.Join(root, module), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "archtest" || entry.Name() == "servertest"):
				return fs.SkipDir
			case !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
				return nil
			}
			for where, text := range literals(t, path) {
				texts++
				check(where, text)
			}
			for _, m := range relativeKey.FindAllStringSubmatch(readFile(t, path), -1) {
				relative++
				if key := cmp.Or(m[1], m[2]); !slices.ContainsFunc(sorted(all), func(k string) bool { return k == key || strings.HasSuffix(k, "."+key) }) {
					t.Errorf("%s has an error about %s, but no key ends so", path, key)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if texts < 1000 || relative < 50 {
		t.Errorf("only %d texts and %d keys of errors were found", texts, relative)
	}
	for _, page := range []string{"README.md", "deploy/README.md", "docs/running/discovery.md", "docs/inside/leases.md", "docs/running/bootstrap.md", "docs/running/placement.md", "docs/running/settings-of-akka.md", "docs/using/http.md"} {
		check(page, readFile(t, filepath.Join(root, page)))
	}
}

// relativeKey finds the keys of errors of configurations, which may lack a prefix.
var relativeKey = regexp.MustCompile(`(?:setting\.Key|setting\.Errorf|\bbad)\("([a-z_.]+)"\)|(?:setting\.Errorf|\bbad)\("([a-z_.]+)", "`)

// raise finds what a text asks to raise or lower.
var raise = regexp.MustCompile(`\b(raise|increase|lower) ([A-Z]\w+|[a-z]+-[a-z-]+)`)

func sorted(keys map[string]bool) []string {
	var list []string
	for key := range keys {
		list = append(list, key)
	}
	slices.Sort(list)
	return list
}

// literals are the texts of a Go file by position, without imports and the
// tags of fields.
func literals(t *testing.T, path string) map[string]string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			if n.Tag == nil {
				return true
			}
			// Of a tag only the text for --help.
			if tag, err := strconv.Unquote(n.Tag.Value); err == nil {
				found[files.Position(n.Tag.Pos()).String()] = reflect.StructTag(tag).Get("help")
			}
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				found[files.Position(n.Pos()).String()] = text
			}
		}
		return true
	})
	return found
}

// One file and one environment serve all services: each ignores the others' keys
// and refuses unknown ones.
func TestOneConfigurationForAll(t *testing.T) {
	keys := keysOf(t)
	values := map[string]string{}
	for _, service := range services {
		cmd := exec.Command(filepath.Join(binaries(t), service), "--print-config")
		cmd.Env = append(os.Environ(), "ROOST_JOURNAL_URL=sqlite:j.db", "ROOST_LEASE_URL=sqlite:l.db", "ROOST_DISCOVERY_URL=static://a:1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s --print-config: %v", service, err)
		}
		for line := range strings.Lines(string(out)) {
			if columns := strings.Fields(line); len(columns) >= 2 {
				values[columns[0]] = columns[1]
			}
		}
	}
	var file strings.Builder
	env := os.Environ()
	for _, service := range services {
		for _, key := range keys[service] {
			if value := values[key]; value != "" && value != `""` && !strings.Contains(file.String(), key+": ") {
				fmt.Fprintf(&file, "%s: %s\n", key, strconv.Quote(value))
				env = append(env, "ROOST_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))+"="+value)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "roost.yaml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, service := range services {
		if out, err := exec.Command(filepath.Join(binaries(t), service), "--print-config", "--config", path).CombinedOutput(); err != nil {
			t.Errorf("%s with a file of all keys: %v\n%s", service, err, out)
		}
		cmd := exec.Command(filepath.Join(binaries(t), service), "--print-config")
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s with variables for all keys: %v\n%s", service, err, out)
		}
		cmd = exec.Command(filepath.Join(binaries(t), service), "--print-config")
		cmd.Env = append(env, "ROOST_SOMETHING=1")
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "ROOST_SOMETHING") {
			t.Errorf("%s with an unknown variable: %v\n%s", service, err, out)
		}
	}
}

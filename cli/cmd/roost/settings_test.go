package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// writeSettings is the environment variable that makes [TestSettingsPage] write the page instead
// of comparing it: make settings.
const writeSettings = "WRITE_SETTINGS"

// setting is a key as the help of one service shows it.
type setting struct {
	key, help, preset, unit string
	secretFile, expert      bool
}

// settingsOf reads the help of a service about its keys: those that --help shows, and those for experts.
func settingsOf(t *testing.T, service string) []setting {
	t.Helper()
	return append(settingsFrom(t, service, "--help"), settingsFrom(t, service, "--help-expert")...)
}

// settingsFrom reads one of the two parts of a service's help.
func settingsFrom(t *testing.T, service, flag string) []setting {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries(t), service), flag)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // some defaults grow with the processors
	help, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v", service, flag, err)
	}
	entry := regexp.MustCompile(`(?m)^  --[a-z][a-z0-9_.-]*, ROOST_([A-Z0-9_]+)\n        (.*)\n        default (.*)$`)
	flags := regexp.MustCompile(`(?m)^  --([a-z][a-z0-9_.-]*), ROOST_`).FindAllStringSubmatch(string(help), -1)
	entries := entry.FindAllStringSubmatch(string(help), -1)
	if len(entries) < 10 || len(entries) != len(flags) {
		t.Fatalf("%s %s lists %d keys, and %d with a text and a default", service, flag, len(flags), len(entries))
	}
	var all []setting
	for i, m := range entries {
		s := setting{key: strings.ReplaceAll(flags[i][1], "-", "_"), help: m[2], preset: m[3], expert: flag == "--help-expert"}
		if open := strings.LastIndex(s.preset, " ("); open > 0 && strings.HasSuffix(s.preset, ")") {
			s.preset, s.unit = s.preset[:open], strings.TrimSuffix(s.preset[open+2:], ")")
		}
		s.preset, _, s.secretFile = strings.Cut(s.preset, "; or the content of the file")
		all = append(all, s)
	}
	return all
}

// row is a key with the services that have it. Services may differ in its default, for example for
// the listener, and in its use, for example for the journal.
type row struct {
	setting
	presets map[string][]string // services by default
	helps   map[string][]string // services by text
}

// settingsPage writes the page from what all services say.
func settingsPage(t *testing.T) string {
	t.Helper()
	rows := map[string]*row{}
	for _, service := range services {
		for _, s := range settingsOf(t, service) {
			r := rows[s.key]
			if r == nil {
				r = &row{setting: s, presets: map[string][]string{}, helps: map[string][]string{}}
				rows[s.key] = r
			}
			if r.unit != s.unit {
				t.Errorf("%s gives %s the unit %q, another service %q", service, s.key, s.unit, r.unit)
			}
			if r.expert != s.expert {
				t.Errorf("%s is for experts in some services only", s.key)
			}
			r.presets[s.preset] = append(r.presets[s.preset], service)
			r.helps[s.help] = append(r.helps[s.help], service)
		}
	}
	keys := make([]string, 0, len(rows))
	for key := range rows { // sorted below
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var page strings.Builder
	page.WriteString(settingsIntro)
	for _, expert := range []bool{false, true} {
		level, section := "##", ""
		if expert {
			page.WriteString(expertIntro)
			level = "###"
		}
		for _, key := range keys {
			if rows[key].expert != expert {
				continue
			}
			if now, _, _ := strings.Cut(key, "."); now != section {
				section = now
				fmt.Fprintf(&page, "\n%s %s\n\n| key | default | unit | services | what it sets |\n|---|---|---|---|---|\n", level, section)
			}
			fmt.Fprintln(&page, rows[key].line())
		}
	}
	return page.String()
}

// line returns the row of the table.
func (r *row) line() string {
	var has []string
	for _, list := range r.presets { // sorted below
		has = append(has, list...)
	}
	slices.Sort(has)
	if len(has) == len(services) {
		has = []string{"all"}
	}
	preset := perService(r.presets, func(text string) string {
		if text == "empty" {
			return text
		}
		return "`" + text + "`"
	})
	help := perService(r.helps, func(text string) string { return strings.ReplaceAll(text, "|", `\|`) })
	if r.secretFile {
		help += ". The value can be in a file that `ROOST_" + strings.ToUpper(strings.ReplaceAll(r.key, ".", "_")) + "_FILE` names"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |", r.key, preset, r.unit, strings.Join(has, ", "), help)
}

// perService writes the text of all services, or if they differ, each text with its services.
func perService(texts map[string][]string, show func(string) string) string {
	var parts []string
	for text, list := range texts { // sorted below
		if len(texts) == 1 {
			return show(text)
		}
		parts = append(parts, "*"+strings.Join(list, ", ")+"*: "+show(text))
	}
	slices.Sort(parts)
	return strings.Join(parts, "<br>")
}

const settingsIntro = `# Settings

Every setting of the three services. ` + "`make settings`" + ` writes this page from ` + "`--help`" + ` of the binaries, and a test
compares it with them.

Flags override the environment, which overrides the YAML file (` + "`--config FILE`" + ` or ` + "`ROOST_CONFIG`" + `, at most 64 KiB),
which overrides the defaults.

| where | spelling |
|---|---|
| file | ` + "`region: {drain_timeout: 5s}`" + ` or ` + "`region.drain_timeout: 5s`" + ` |
| environment | ` + "`ROOST_REGION_DRAIN_TIMEOUT=5s`" + `. An empty value counts as unset |
| flag | ` + "`--region.drain-timeout 5s`" + `, also with ` + "`=`" + ` or with underscores |

- Durations are written ` + "`250ms`" + `, ` + "`90s`" + ` or ` + "`1h30m`" + `; sizes ` + "`64KiB`" + ` or ` + "`1GiB`" + `; lists ` + "`a,b`" + `; key=value lists ` + "`a=1,b=2`" + `. In
  the file, lists and key=value lists can also be YAML lists and maps.
- One file and one environment can serve all services: each ignores the keys of the others. A service does not start if the
  file, the environment (` + "`ROOST_…`" + `) or the command line has another unknown key.
- Where the table names a ` + "`ROOST_…_FILE`" + `, the value can be the content of that file instead. Set only one of the two.
- ` + "`--help`" + ` lists the usual keys of a service, ` + "`--help-expert`" + ` the others. ` + "`--print-config`" + ` shows every value and where it comes from, without
  secrets.
- Telemetry follows the standard ` + "`OTEL_*`" + ` variables ([observability](observability.md)).
- ` + "`/metrics`" + `, ` + "`/livez`" + `, ` + "`/readyz`" + ` and ` + "`/version`" + ` are served at ` + "`management.listen`" + ` ([health](health.md)).

Few clusters need more than the first part of this page, the settings that ` + "`--help`" + ` lists. The others are in
[a part of their own](#settings-for-experts), and ` + "`--help-expert`" + ` lists them.

The names of Akka Cluster's settings are in [settings of Akka](settings-of-akka.md).
`

const expertIntro = `
## Settings for experts

These have defaults that suit nearly all clusters. Change one only if you have measured that it is in the way.
`

// TestSettingsPage: the page has every key of the binaries, with its default, unit and text.
func TestSettingsPage(t *testing.T) {
	path := filepath.Join(root, "docs", "running", "settings.md")
	want := settingsPage(t)
	if os.Getenv(writeSettings) != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have := strings.Split(readFile(t, path), "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(have) || have[i] != line {
			t.Fatalf("docs/running/settings.md line %d is not what the binaries say; run make settings. Should be:\n%s", i+1, line)
		}
	}
	if len(have) != len(strings.Split(want, "\n")) {
		t.Error("docs/running/settings.md has more lines than the binaries say; run make settings")
	}
}

// TestSharedSettings: each service takes a file with all keys of the others.
func TestSharedSettings(t *testing.T) {
	all := map[string]setting{}
	own := map[string]map[string]bool{}
	for _, service := range services {
		own[service] = map[string]bool{}
		for _, s := range settingsOf(t, service) {
			all[s.key], own[service][s.key] = s, true
		}
	}
	for _, service := range services {
		var others strings.Builder
		for key := range all { // in any order
			if !own[service][key] {
				fmt.Fprintf(&others, "%s: {a: b}\n", key)
			}
		}
		file := filepath.Join(t.TempDir(), "roost.yaml")
		if err := os.WriteFile(file, []byte(others.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(filepath.Join(binaries(t), service), "--config", file, "--print-config")
		cmd.Env = append(os.Environ(), "ROOST_JOURNAL_URL=sqlite:journal.db", "ROOST_LEASE_URL=sqlite:lease.db") // the keys without a default
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s refuses keys of other services: %v\n%s", service, err, out)
		}
	}
}

// olderOfAkka are settings that the page names for the sake of older documents.
var olderOfAkka = []string{
	"akka.cluster.sharding.passivate-idle-entity-after", "akka.cluster.auto-down-unreachable-after", "akka.cluster.role.<name>.min-nr-of-members",
	"akka.actor.internal-dispatcher", "akka.management.cluster.bootstrap.form-new-cluster",
}

// TestEverySettingOfAkka: the page has a row for every setting of testdata/settings-of-akka.txt, and names no others.
func TestEverySettingOfAkka(t *testing.T) {
	missing := map[string]bool{}
	for line := range strings.Lines(readFile(t, filepath.Join("testdata", "settings-of-akka.txt"))) {
		if name := strings.TrimSpace(line); !strings.HasPrefix(name, "#") {
			missing[name] = true
		}
	}
	if len(missing) < 300 {
		t.Fatalf("only %d settings are listed", len(missing))
	}
	found := namesOfAkka(readFile(t, filepath.Join(root, "docs", "running", "settings-of-akka.md")))
	for _, name := range found {
		if !missing[name] && !slices.Contains(olderOfAkka, name) {
			t.Errorf("the page has %s twice, or it is not a setting of Akka", name)
		}
		delete(missing, name)
	}
	for _, name := range sorted(missing) {
		t.Errorf("the page has no row for %s", name)
	}
}

// namesOfAkka returns the names in the first columns of the page, with the beginning that the heading names.
func namesOfAkka(page string) (names []string) {
	heading, braces, span := regexp.MustCompile("^## .*`([a-z.-]+)`$"), regexp.MustCompile(`^(.*)\{(.*)\}(.*)$`), regexp.MustCompile("`([^`]+)`")
	begin := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if m := heading.FindStringSubmatch(line); m != nil {
			begin = m[1] + "."
		}
		cell, _, _ := strings.Cut(line, " | ")
		if begin == "" || !strings.HasPrefix(cell, "| `") {
			continue
		}
		for _, m := range span.FindAllStringSubmatch(cell, -1) {
			before, parts, after := "", []string{m[1]}, ""
			if b := braces.FindStringSubmatch(m[1]); b != nil {
				before, parts, after = b[1], strings.Split(b[2], ","), b[3]
			}
			for _, part := range parts {
				name := before + part + after
				if !strings.HasPrefix(name, "akka.") {
					name = begin + name
				}
				names = append(names, name)
			}
		}
	}
	return names
}

// TestSettingsOfAkka: the defaults that the page gives for keys match the binaries. (That
// the keys exist is part of [TestTextsNameRealKeys].)
func TestSettingsOfAkka(t *testing.T) {
	presets := map[string]string{}
	for _, service := range services {
		for _, s := range settingsOf(t, service) {
			presets[s.key] = s.preset
		}
	}
	found := 0
	for _, m := range regexp.MustCompile("`([a-z]+(?:\\.[a-z_]+)+)` \\(([^):]*)[):]").FindAllStringSubmatch(readFile(t, filepath.Join(root, "docs", "running", "settings-of-akka.md")), -1) {
		preset, known := presets[m[1]]
		if !known {
			continue
		}
		found++
		said := strings.Trim(strings.ReplaceAll(m[2], " ", ""), "`")
		if a, err := time.ParseDuration(preset); err == nil {
			if b, err := time.ParseDuration(strings.ReplaceAll(said, "min", "m")); err == nil && a == b {
				continue
			}
		}
		if said != preset {
			t.Errorf("docs/running/settings-of-akka.md gives %s the default %q; it is %q", m[1], said, preset)
		}
	}
	if found < 20 {
		t.Errorf("only %d defaults were found", found)
	}
}

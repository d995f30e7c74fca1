package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/setting"
)

// exampleConfig is a service's configuration with a key of every kind.
type exampleConfig struct {
	Config
	Region struct {
		PassivateAfter time.Duration     `key:"passivate_after" help:"idle time"`
		Mailbox        int               `key:"mailbox" help:"commands waiting per entity" unit:"commands" range:"1.."`
		Small          uint8             `key:"small" help:"for experts" expert:"true"`
		Share          float64           `key:"share"`
		MailboxShare   float64           `key:"mailbox_share" range:"0..1"`
		Buffer         setting.Bytes     `key:"buffer"`
		Seeds          []string          `key:"seeds"`
		Labels         map[string]string `key:"labels"`
		Types          map[string]string `key:"types" nested:"true"`
	} `key:"region"`
	URL      string `key:"journal.url" secret:"true"`
	Untagged string
}

func (c *exampleConfig) Validate() error { return setting.Ranges(c) }

func newExample() *exampleConfig {
	c := &exampleConfig{Config: Default("127.0.0.1:0")}
	c.Region.PassivateAfter = 2 * time.Minute
	c.Region.Mailbox = 1000
	c.Region.Buffer = 1 << 20
	return c
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	file := writeFile(t, "roost.yaml", "region:\n  passivate_after: 3m\n  mailbox: 3\n  small: 3\nregion.share: 0.3\n")
	env := []string{"ROOST_CONFIG=" + file, "ROOST_REGION_MAILBOX=4", "ROOST_REGION_SMALL=4", "ROOST_REGION_BUFFER=", "OTHER=1"}
	c := newExample()
	s, err := Load(c, []string{"--region.small=5", "--node.exit-with-parent", "-log.level", "debug"}, env)
	if err != nil {
		t.Fatal(err)
	}
	r := c.Region
	if r.PassivateAfter != 3*time.Minute || r.Mailbox != 4 || r.Small != 5 || r.Share != 0.3 || r.Buffer != 1<<20 ||
		!c.ExitWithParent || c.LogLevel != slog.LevelDebug {
		t.Errorf("got %+v", c)
	}
	for key, want := range map[string]string{
		"region.passivate_after": file + ":2", "region.mailbox": "ROOST_REGION_MAILBOX", "region.small": "--region.small",
		"region.share": file + ":5", "region.buffer": "default",
	} {
		if got := s.field(key).source; got != want {
			t.Errorf("%s is from %q, want %q", key, got, want)
		}
	}
}

// TestSourceOfKeyInError: an error names the sources of the keys in it, not of those that are only parts of its words.
func TestSourceOfKeyInError(t *testing.T) {
	_, err := Load(newExample(), []string{"--region.mailbox-share", "2", "--region.mailbox", "3"}, nil)
	if err == nil || !strings.Contains(err.Error(), "region.mailbox_share is set by --region.mailbox-share") || strings.Contains(err.Error(), "region.mailbox is set by") {
		t.Error(err)
	}
	fields, err := fieldsOf(newExample())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		f.source = f.flag()
	}
	s := &Sources{fields: fields}
	for text, want := range map[string]string{
		"see region.mailbox.":             "region.mailbox is set by --region.mailbox",
		"region.mailbox: no":              "region.mailbox is set by --region.mailbox",
		`"region.mailbox" is too small`:   "region.mailbox is set by --region.mailbox",
		"the file /etc/region.mailbox":    "",
		"old.region.mailbox is not known": "",
		"region.mailbox.size":             "",
	} {
		if want != "" {
			want = "\n" + want
		}
		if got := s.explain(errors.New(text)).Error(); got != text+want {
			t.Errorf("got %q, want %q", got, text+want)
		}
	}
}

func TestLists(t *testing.T) {
	file := writeFile(t, "roost.yaml", "region:\n  seeds: ['a:1', 'b:2']\n  labels: {zone: x, disk: ssd}\n")
	fromFile, fromEnv := newExample(), newExample()
	if _, err := Load(fromFile, []string{"--config", file}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(fromEnv, nil, []string{"ROOST_REGION_SEEDS=a:1, b:2", "ROOST_REGION_LABELS=zone=x,disk=ssd"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*exampleConfig{fromFile, fromEnv} {
		if !slices.Equal(c.Region.Seeds, []string{"a:1", "b:2"}) || !maps.Equal(c.Region.Labels, map[string]string{"zone": "x", "disk": "ssd"}) {
			t.Errorf("got %+v", c.Region)
		}
	}
}

// TestNested: a map whose values are words may have sections in the file.
func TestNested(t *testing.T) {
	file := writeFile(t, "roost.yaml", "region:\n  types:\n    Cart: {mailbox: 7, share: 0.5}\n    Order: lru small=3\n")
	c := newExample()
	if _, err := Load(c, []string{"--config", file}, nil); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(c.Region.Types, map[string]string{"Cart": "mailbox=7 share=0.5", "Order": "lru small=3"}) {
		t.Fatalf("got %v", c.Region.Types)
	}
	if err := SetWords(&c.Region, c.Region.Types["Cart"]); err != nil || c.Region.Mailbox != 7 || c.Region.Share != 0.5 {
		t.Errorf("got %+v, %v", c.Region, err)
	}
	for words, says := range map[string]string{
		"mailbox":     `wrong at "mailbox": write it like key=value`,
		"mailbx=1":    "mailbx is unknown: did you mean mailbox?",
		"mailbox=few": `mailbox: "few" is not an integer of at most`,
	} {
		if err := SetWords(&c.Region, words); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", words, err, says)
		}
	}
}

// manyKeys returns a file of unknown keys.
func manyKeys() string {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

func TestLoadRefuses(t *testing.T) {
	long := "#" + strings.Repeat("x", maxConfig)
	for _, test := range []struct {
		name, file string
		args, env  []string
		want       []string // each must be in the error
	}{
		{name: "unknown flag", args: []string{"--region.mailbx", "3"}, want: []string{"--region.mailbx is unknown: did you mean --region.mailbox?"}},
		{name: "flag without section", args: []string{"--passivate-after=3m"}, want: []string{"did you mean --region.passivate-after?"}},
		{name: "far off", args: []string{"--bananas", "3"}, want: []string{"--bananas is unknown; see --help"}},
		{name: "argument", args: []string{"start"}, want: []string{`"start"`}},
		{name: "key given twice", args: []string{"--region.labels", "zone=x,disk=ssd,zone=y"}, want: []string{"region.labels", "zone is given twice"}},
		{name: "flag without value", args: []string{"--region.mailbox"}, want: []string{"needs a value"}},
		{name: "bad duration", env: []string{"ROOST_REGION_PASSIVATE_AFTER=5"}, want: []string{"region.passivate_after", `"5" from ROOST_REGION_PASSIVATE_AFTER`, "2m"}},
		{name: "bad size", args: []string{"--region.buffer", "5 bananas"}, want: []string{"region.buffer", "64KiB"}},
		{name: "bad level", args: []string{"--log.level", "loud"}, want: []string{`log.level: "loud" from --log.level is not a level: write debug`}},
		{name: "bad map", args: []string{"--region.labels", "zone"}, want: []string{"region.labels", "key=value"}},
		{name: "a section in a map", file: "region: {labels: {disk: {kind: ssd}}}", want: []string{"disk of region.labels is not a single value"}},
		{name: "a section too deep", file: "region: {types: {Cart: {a: {b: c}}}}", want: []string{"Cart of region.types", "wrong at a"}},
		{name: "a list for a section", file: "region: {types: {Cart: [a]}}", want: []string{"Cart of region.types", "neither a value nor a section"}},
		{name: "overflow", args: []string{"--region.small", "256"}, want: []string{"region.small", "8 bits"}},
		{name: "secret stays secret", env: []string{"ROOST_JOURNAL_URL_FILE=/nonexistent"}, want: []string{"journal.url", "ROOST_JOURNAL_URL_FILE"}},
		{name: "a secret and its file", env: []string{"ROOST_JOURNAL_URL=postgres://u:hush@h/d", "ROOST_JOURNAL_URL_FILE=/nonexistent"}, want: []string{"journal.url: both ROOST_JOURNAL_URL and ROOST_JOURNAL_URL_FILE are set", "unset one"}},
		{name: "slip in the environment", env: []string{"ROOST_REGION_MAILBOXES=3"}, want: []string{"did you mean ROOST_REGION_MAILBOX?"}},
		{name: "unknown variable", env: []string{"ROOST_SOMETHING_ELSE=1"}, want: []string{"ROOST_SOMETHING_ELSE in the environment is unknown", "--help"}},
		{name: "unknown variable of a section of its own", env: []string{"ROOST_REGION_PASSIVE_AFTER=1m"}, want: []string{"did you mean ROOST_REGION_PASSIVATE_AFTER?"}},
		{name: "a flag's secret", args: []string{"--jornal.url=postgres://u:hush@h/d"}, want: []string{"flag --jornal.url is unknown: did you mean --journal.url?"}},
		{name: "an argument's secret", args: []string{"postgres://u:hush@h/d"}, want: []string{`"postgres://u:xxxxx@h/d"`}},
		{name: "a value's secret", args: []string{"--region.mailbox", "postgres://u:hush@h/d"}, want: []string{"region.mailbox"}},
		{name: "no file", args: []string{"--config", "/nonexistent"}, want: []string{"configuration file", "/nonexistent"}},
		{name: "unknown key", file: "region:\n  mailbx: 3\n", want: []string{"roost.yaml:2", "region.mailbx is unknown: did you mean region.mailbox?"}},
		{name: "twice", file: "region: {mailbox: 3}\nregion.mailbox: 4\n", want: []string{"roost.yaml:2", "already in line 1"}},
		{name: "no value", file: "region:\n  mailbox:\n", want: []string{"roost.yaml:2", "no value"}},
		{name: "list for a value", file: "region: {mailbox: [3]}\n", want: []string{"region.mailbox", "list"}},
		{name: "not a mapping", file: "- 3\n", want: []string{"keys and values"}},
		{name: "not YAML", file: "{", want: []string{"roost.yaml"}},
		{name: "two documents", file: "region: {mailbox: 3}\n---\na: 1\n", want: []string{"one document"}},
		{name: "alias", file: "region: {mailbox: &a 3, small: *a}\n", want: []string{"alias"}},
		{name: "many problems", file: manyKeys(), want: []string{"k0 is unknown", "the rest was not read"}},
		{name: "too long", file: long, want: []string{"longer than 64KiB"}},
		{name: "invalid, own part", file: "region: {mailbox: 0}\n", want: []string{"region.mailbox is 0, must be at least 1", "region.mailbox is set by", "roost.yaml:1"}},
		{name: "invalid, common part", args: []string{"--tls.cert", "x", "--service.listen", "nowhere"}, want: []string{"tls.key", "service.listen", "set by --tls.cert"}},
		{name: "no name of a cluster", args: []string{"--cluster.name", "my shop"}, want: []string{`cluster.name "my shop" must be letters, digits`, "set by --cluster.name"}},
		{name: "a long name of a cluster", args: []string{"--cluster.name", strings.Repeat("a", 64)}, want: []string{"cluster.name has 64 bytes, at most 63"}},
		{name: "an empty name of a cluster", args: []string{"--cluster.name="}, want: []string{"cluster.name is empty"}},
		{name: "all problems at once", args: []string{"--region.small", "x", "--region.share", "y"}, want: []string{"region.small", "region.share"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := test.args
			if test.file != "" {
				args = append(args, "--config", writeFile(t, "roost.yaml", test.file))
			}
			_, err := Load(newExample(), args, test.env)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in the error:\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("the secret shows: %v", err)
			}
		})
	}
}

func TestSharedFile(t *testing.T) {
	file := writeFile(t, "roost.yaml", "# none\nregion:\ngateway:\n  anything: {goes: here}\nlog: {level: warn}\n")
	c := newExample()
	env := []string{
		"ROOST_GATEWAY_MAX_BODY=1MiB", "ROOST_GOSSIP_FAST=true", "ROOST_DISCOVERY_INTERVAL=1s", "ROOST_JOURNAL_TYPES=Order=2", // other services'
		"ROOST_ADMIN=http://a:1", "ROOST_GATEWAY=http://b:1", "ROOST_DIR=x", "ROOST_TOOL_STATUS=64", "ROOST_PARENT_PIPE=3", // the roost command's, and of a region's parent
		// What Kubernetes sets for services called roost and roost-region.
		"ROOST_SERVICE_HOST=10.0.0.1", "ROOST_SERVICE_PORT=80", "ROOST_SERVICE_PORT_HTTP=80", "ROOST_PORT=tcp://10.0.0.1:80",
		"ROOST_PORT_80_TCP=tcp://10.0.0.1:80", "ROOST_PORT_80_TCP_PROTO=tcp", "ROOST_REGION_PORT_80_TCP_ADDR=10.0.0.1", "ROOST_REGION_SERVICE_HOST=10.0.0.1",
	}
	if _, err := Load(c, []string{"--config", file}, env); err != nil {
		t.Errorf("what belongs to others: %v", err)
	}
	if c.LogLevel != slog.LevelWarn {
		t.Error("the own section was not read")
	}
	empty := writeFile(t, "empty.yaml", "")
	if _, err := Load(newExample(), []string{"--config", empty}, nil); err != nil {
		t.Errorf("empty file: %v", err)
	}
}

// TestLinks: what Kubernetes and Docker set for a service whose name makes the name of a key is not configuration.
func TestLinks(t *testing.T) {
	c := newExample()
	s, err := Load(c, nil, []string{
		"ROOST_DISCOVERY_PORT=tcp://10.0.0.1:25520", "ROOST_PORT=tcp://10.0.0.1:1", "ROOST_PORT_9000_TCP_PORT_END=9010", "ROOST_PORT_9000_TCP_START=tcp://10.0.0.1:9000",
		"ROOST_REGION_NAME=/shop/roost-region", "ROOST_REGION_ENV_PATH=/bin", "ROOST_REGION_ENV_ROOST_CLUSTER_NAME=x",
		"ROOST_NODE_NAME=/shop/roost-node", "ROOST_CLUSTER_NAME=/shop/roost-cluster", "ROOST_REGION_PORT=udp://10.0.0.1:1",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range s.fields {
		if f.source != "default" {
			t.Errorf("%s is set by %s", f.Key, f.source)
		}
	}
	for _, wrong := range []string{"ROOST_REGION_ENV_PATH=/bin", "ROOST_REGION_NAME=/shop/another", "ROOST_REGION_MAILBOX=tcp://10.0.0.1:1"} {
		if _, err := Load(newExample(), nil, []string{wrong}); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
	if _, err := Load(c, nil, []string{"ROOST_NODE_NAME=/shop/another"}); err != nil || c.Name != "/shop/another" {
		t.Errorf("a name that is not a link: %q, %v", c.Name, err)
	}
}

func TestSecret(t *testing.T) {
	file := writeFile(t, "url", "postgres://u:pw@h/db\n")
	c := newExample()
	s, err := Load(c, nil, []string{"ROOST_JOURNAL_URL_FILE=" + file})
	if err != nil || c.URL != "postgres://u:pw@h/db" {
		t.Fatalf("got %q, %v", c.URL, err)
	}
	var out strings.Builder
	s.WriteEffective(&out)
	if strings.Contains(out.String(), "pw") || !strings.Contains(out.String(), "(secret)") {
		t.Errorf("the secret shows:\n%s", out.String())
	}
}

// TestPrintWithoutPasswords: a password in any value, such as a URL, is not printed.
func TestPrintWithoutPasswords(t *testing.T) {
	s, err := Load(newExample(), []string{"--node.name=postgres://roost:hush@db/x", "--region.seeds=etcd://u:hush@h/x,consul://h/x?token=hush"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s.WriteEffective(&out)
	if strings.Contains(out.String(), "hush") || !strings.Contains(out.String(), "postgres://roost:xxxxx@db/x") {
		t.Errorf("the password shows:\n%s", out.String())
	}
}

func TestHelpAndPrint(t *testing.T) {
	s, err := Load(newExample(), []string{"--help"}, nil)
	if err != nil || s.Asked != "help" {
		t.Fatalf("asked %q, %v", s.Asked, err)
	}
	var help, print strings.Builder
	s.WriteHelp(&help, "roost-region")
	for _, want := range []string{"--region.passivate-after, ROOST_REGION_PASSIVATE_AFTER", "default 2m0s (duration)", "default 1000 (commands)", "default 1MiB (bytes)", "_FILE"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("--help lacks %q:\n%s", want, help.String())
		}
	}
	if strings.Contains(help.String(), "--region.small") || !strings.Contains(help.String(), " more settings are for experts: roost-region --help-expert") {
		t.Errorf("--help shows settings for experts, or not how to see them:\n%s", help.String())
	}
	if s, err = Load(newExample(), []string{"--help-expert"}, nil); err != nil || s.Asked != "help_expert" {
		t.Fatalf("asked %q, %v", s.Asked, err)
	}
	help.Reset()
	s.WriteHelp(&help, "roost-region")
	if !strings.Contains(help.String(), "--region.small, ROOST_REGION_SMALL") || strings.Contains(help.String(), "--region.mailbox") {
		t.Errorf("--help-expert:\n%s", help.String())
	}
	for _, f := range s.fields {
		if f.Help == "" && !strings.HasPrefix(f.Key, "region.") && f.Key != "journal.url" {
			t.Errorf("%s has no help", f.Key)
		}
	}
	if s, err = Load(newExample(), []string{"--print-config", "--region.mailbox", "7"}, nil); err != nil || s.Asked != "print_config" {
		t.Fatalf("asked %q, %v", s.Asked, err)
	}
	s.WriteEffective(&print)
	if !strings.Contains(strings.Join(strings.Fields(print.String()), " "), "region.mailbox 7 --region.mailbox") {
		t.Errorf("--print-config:\n%s", print.String())
	}
}

func TestDeclarationMistakes(t *testing.T) {
	for _, config := range []any{
		struct{}{},
		&struct {
			A string `key:"a.b"`
			B string `key:"a_b"`
		}{},
		&struct {
			a string `key:"a"`
		}{},
	} {
		if _, err := fieldsOf(config); err == nil {
			t.Errorf("%T is accepted", config)
		}
	}
}

func TestTrustedProxiesAreAddresses(t *testing.T) {
	c := newExample()
	c.TrustedProxies = []string{"10.1.0.0/16", "proxy.example", "10.1.0.0/33", "::ffff:10.0.0.0/104"}
	if err := c.Config.Validate(); err == nil || strings.Count(err.Error(), "http.trusted_proxies") != 3 || !strings.Contains(err.Error(), "proxy.example") {
		t.Errorf("names: %v", err)
	}
}

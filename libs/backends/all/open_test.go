package all_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/open"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, test := range []struct{ url, file string }{
		{"memory:", ""},
		{"sqlite://" + dir + "/deep/a.db", "deep/a.db"},
		{"sqlite:b.db", "b.db"},
		{"sqlite:deep/with%20space%3F.db", "deep/with space?.db"},
		{"sqlite:" + dir + "/c.db", "c.db"},
	} {
		b, err := open.Open(t.Context(), test.url, journal.DefaultConfig())
		if err != nil {
			t.Fatalf("%s: %v", test.url, err)
		}
		if _, err := b.Declare(context.Background(), journal.Declaration{Cluster: "blue"}); err != nil {
			t.Fatalf("%s: %v", test.url, err)
		}
		if test.file != "" {
			info, err := os.Stat(filepath.Join(dir, test.file))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("%s: %v, %v", test.url, info, err)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatalf("%s: %v", test.url, err)
		}
	}
}

func TestBadURLs(t *testing.T) {
	for url, part := range map[string]string{
		"":               "scheme",
		"journal.db":     "scheme",
		"mysql://db/x":   "postgres",
		"postgres://db":  "database",
		"postgres://db/": "database",
		"postgres:x":     "database",
		"postgres://db/x?options=-csynchronous_commit%3Doff&synchronous_commit=off": `"options", "synchronous_commit"`,
		"postgresql://u:p@db/x?service=a":                                           `"service"`,
		"sqlite:":                                                                   "missing",
		"sqlite:///":                                                                "missing",
		"sqlite://host/j.db":                                                        "host",
		"sqlite:j.db?sync=off":                                                      `"sync"`,
		"memory:?size=3&a=1":                                                        `"a", "size"`,
		"memory:x":                                                                  "nothing",
		"sqlite:j.db#part":                                                          "behind #",
		"postgres://u:hu#sh@h/d":                                                    "parsed",
		"postgres://u:hu?sh@h/d":                                                    "parse",
		"sqlite:j.db?a=%zz":                                                         "parameters",
		"sqlite:\x7f":                                                               "parsed",
		"sqlite://u:p%zz@h/j.x":                                                     "parsed",
	} {
		b, err := open.Open(t.Context(), url, journal.DefaultConfig())
		if !errors.Is(err, journal.ErrConfig) || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want an error with %q", url, err, part)
		}
		if b != nil {
			t.Errorf("%q: a backend and an error", url)
		}
	}
	if _, err := open.Open(t.Context(), "memory:", journal.Config{}); err == nil || !strings.Contains(err.Error(), "BatchOps") {
		t.Errorf("an empty configuration: %v", err)
	}
}

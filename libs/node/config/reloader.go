package config

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"

	"github.com/roost-cluster/roost/libs/backendurl"
)

// Reloader reads a configuration file again when it changes.
type Reloader struct {
	log   *slog.Logger
	live  []string
	fresh func() Configured
	apply func(Configured) error
	first *Sources // that the process has started with
	last  *Sources // that was read last and could be used
	seen  string   // the content that last is from
	said  string   // the last error that was logged
}

// contentOf returns a hash of a file, or the reason why it cannot be read. Time stamps are not compared: a file that
// replaces another one can have the same.
func contentOf(path string) string {
	text, err := readBounded(path, maxConfig)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// NewReloader returns a Reloader of the file that sources are from. See [node.Node.Reread] for live, fresh and apply.
func NewReloader(sources *Sources, log *slog.Logger, live []string, fresh func() Configured, apply func(Configured) error) *Reloader {
	return &Reloader{log: log, live: live, fresh: fresh, apply: apply, first: sources, last: sources, seen: contentOf(sources.File)}
}

// Reload applies the configuration if its file has changed since it was applied last.
func (r *Reloader) Reload() {
	now := contentOf(r.first.File)
	if now == r.seen {
		r.said = ""
		return
	}
	config := r.fresh()
	sources, err := Load(config, r.first.args, r.first.environ)
	if err == nil {
		err = r.apply(config)
	}
	if err != nil {
		// The content is not remembered as seen, because the reason can go away without another change.
		if said := backendurl.RedactText(err.Error()); said != r.said {
			r.said = said
			r.log.Error("changed configuration file is unusable, keeping old settings", "file", r.first.File, "error", said)
		}
		return
	}
	r.seen, r.said = now, ""
	applied := slices.DeleteFunc(sources.differing(r.last), func(key string) bool { return !slices.Contains(r.live, key) })
	waiting := slices.DeleteFunc(sources.differing(r.first), func(key string) bool { return slices.Contains(r.live, key) })
	r.last = sources
	r.log.Info("the configuration file has changed", "file", r.first.File, "applied", applied, "need_restart", waiting)
}

// differing returns the keys whose values differ.
func (s *Sources) differing(other *Sources) (keys []string) {
	for i, f := range s.fields {
		if f.text() != other.fields[i].text() {
			keys = append(keys, f.Key)
		}
	}
	return keys
}

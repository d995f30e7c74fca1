package node

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/backendurl"
)

// rereadEvery is the interval between checks of the configuration file: an operator who waits for
// an effect expects one by then.
const rereadEvery = 2 * time.Second

// Reread reads the configuration again whenever its file has changed, and calls apply with
// it: from file, environment and flags, as at the start. fresh returns a configuration with the
// defaults. live are the keys that apply puts into effect; others that have changed are logged as
// in need of a restart. A file that cannot be used changes nothing.
//
// Without a file, or if the node was not started by [Main], Reread does nothing.
func (n *Node) Reread(live []string, fresh func() Configured, apply func(Configured) error) {
	if n.sources == nil || n.sources.File == "" {
		return
	}
	r := &rereader{node: n, live: live, fresh: fresh, apply: apply, first: n.sources, last: n.sources, seen: contentOf(n.sources.File)}
	n.Stage(Stage{Name: "configuration file", Run: func(ctx context.Context) error {
		tick := time.NewTicker(rereadEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.look()
			case <-ctx.Done():
				return nil
			}
		}
	}})
}

// rereader reads a configuration file again when it changes.
type rereader struct {
	node  *Node
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

func (r *rereader) look() {
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
			r.node.log.Error("changed configuration file is unusable, keeping old settings", "file", r.first.File, "error", said)
		}
		return
	}
	r.seen, r.said = now, ""
	applied := slices.DeleteFunc(sources.differing(r.last), func(key string) bool { return !slices.Contains(r.live, key) })
	waiting := slices.DeleteFunc(sources.differing(r.first), func(key string) bool { return slices.Contains(r.live, key) })
	r.last = sources
	r.node.log.Info("the configuration file has changed", "file", r.first.File, "applied", applied, "need_restart", waiting)
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

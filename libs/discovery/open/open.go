// Package open opens discovery backends by URL.
//
//	static:host:port,host:port    a fixed list; static://… is the same
//	file:/etc/roost/peers         a text file, read at every lookup
//
// A peer may be written "role@host:port".
//
// # What this does not do
//
// It does not ask the backend anything: whether it answers is seen at the
// first lookup.
package open

import (
	"fmt"
	"strings"

	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/discovery/file"
	"github.com/roost-cluster/roost/libs/discovery/static"
)

// Open is the one place where backends are listed. Errors wrap
// discovery.ErrConfig.
func Open(url string) (discovery.Backend, error) {
	b, err := backend(url)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", url, err)
	}
	return b, nil
}

func backend(url string) (discovery.Backend, error) {
	scheme, rest, ok := strings.Cut(url, ":")
	if !ok {
		return nil, fmt.Errorf("%w: this is no URL; use static:host:port,… or file:path", discovery.ErrConfig)
	}
	rest, params, hasParams := strings.Cut(rest, "?")
	if hasParams {
		return nil, fmt.Errorf("%w: unknown parameters %q; %s takes none", discovery.ErrConfig, params, scheme)
	}
	rest = strings.TrimPrefix(rest, "//")
	switch scheme {
	case "static":
		return static.New(rest)
	case "file":
		return file.New(rest)
	}
	return nil, fmt.Errorf("%w: there is no backend %q; use static:host:port,… or file:path", discovery.ErrConfig, scheme)
}

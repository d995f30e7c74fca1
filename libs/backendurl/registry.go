package backendurl

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Registry holds the backends of one kind by the schemes of their URLs. A backend registers itself in the init function of
// its package, so that a program links only the backends that it imports, as with the drivers of database/sql.
type Registry[Opener any] struct {
	config error // wrapped by all errors
	// known maps the schemes of Roost's own backends to their packages, so that the error for a backend that is not linked names
	// the missing import.
	known map[string]string

	mu       sync.RWMutex
	backends map[string]Opener
}

// NewRegistry returns an empty registry whose errors wrap config. known has the package of each of Roost's own backends.
func NewRegistry[Opener any](config error, known map[string]string) *Registry[Opener] {
	return &Registry[Opener]{config: config, known: known, backends: map[string]Opener{}}
}

// Register adds a backend under each of the schemes. It panics if a scheme is registered already.
func (r *Registry[Opener]) Register(o Opener, schemes ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, scheme := range schemes {
		if _, twice := r.backends[scheme]; twice {
			panic(fmt.Sprintf("backendurl: scheme %s is registered twice", scheme))
		}
		r.backends[scheme] = o
	}
}

// Find returns the backend for a scheme.
func (r *Registry[Opener]) Find(scheme string) (o Opener, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	o, linked := r.backends[scheme]
	switch pkg := r.known[scheme]; {
	case linked:
		return o, nil
	case pkg != "":
		return o, fmt.Errorf("%w: this program does not link the backend %q; import it in its main package: import _ %q", r.config, scheme, pkg)
	}
	return o, fmt.Errorf("%w: scheme %q is not known; use %s", r.config, scheme, r.names())
}

// Of returns the backend for a URL, and the part after the colon.
func (r *Registry[Opener]) Of(rawURL string) (o Opener, rest string, err error) {
	scheme, rest, ok := strings.Cut(rawURL, ":")
	if !ok {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return o, "", fmt.Errorf("%w: this is not a URL; use %s, followed by a colon", r.config, r.names())
	}
	o, err = r.Find(scheme)
	return o, rest, err
}

// names lists the schemes that a program may use, for errors. r.mu is held.
func (r *Registry[Opener]) names() string {
	var names []string
	for scheme := range r.backends {
		names = append(names, scheme)
	}
	for scheme := range r.known {
		if _, linked := r.backends[scheme]; !linked {
			names = append(names, scheme)
		}
	}
	slices.Sort(names)
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// health is a set of named checks behind one URL.
type health struct {
	timeout  time.Duration // of each check
	excluded []string      // names of checks that are listed, but fail nothing

	mu     sync.Mutex
	names  []string
	checks map[string]func(context.Context) error
}

func (h *health) add(name string, check func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.checks == nil {
		h.checks = map[string]func(context.Context) error{}
	}
	if _, known := h.checks[name]; !known {
		h.names = append(h.names, name)
	}
	h.checks[name] = check
}

// warning is an error that does not fail a check.
type warning struct{ error }

// Warn returns the result of a check that passes but has something to say: it is listed,
// and the answer is 200 all the same.
func Warn(err error) error { return warning{err} }

func failed(err error) bool { return err != nil && !errors.As(err, new(warning)) }

// all returns the names of all checks.
func (h *health) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.names)
}

// unknown returns the excluded names without a check.
func (h *health) unknown() []string {
	names := h.all()
	return slices.DeleteFunc(slices.Clone(h.excluded), func(name string) bool { return slices.Contains(names, name) })
}

type result struct {
	name string
	err  error
}

// run runs all checks concurrently, except the excluded ones, and returns their results
// in the order of registration. A check that does not return in time has failed.
func (h *health) run(ctx context.Context, exclude []string) []result {
	h.mu.Lock()
	var results []result
	var checks []func(context.Context) error
	for _, name := range h.names {
		if !slices.Contains(exclude, name) {
			results = append(results, result{name: name})
			checks = append(checks, h.checks[name])
		}
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	done := make([]chan error, len(checks))
	for i, check := range checks {
		done[i] = make(chan error, 1)
		go func() { done[i] <- safely(func() error { return check(ctx) }) }()
	}
	for i := range results {
		select {
		case results[i].err = <-done[i]:
		case <-ctx.Done():
			results[i].err = fmt.Errorf("no answer within %v", h.timeout)
		}
		if failed(results[i].err) && slices.Contains(h.excluded, results[i].name) {
			results[i].err = Warn(fmt.Errorf("%w (not counted, because of health.exclude)", results[i].err))
		}
	}
	return results
}

// safely turns a panic into an error.
func safely(f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return f()
}

// ServeHTTP answers 200 if all checks pass, otherwise 503. It lists those that failed or
// warn, with ?verbose all; ?exclude=name omits one.
func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	results := h.run(r.Context(), query["exclude"])
	status, word := http.StatusOK, "ok"
	if slices.ContainsFunc(results, func(r result) bool { return failed(r.err) }) {
		status, word = http.StatusServiceUnavailable, "failed"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	for _, r := range results {
		switch {
		case failed(r.err):
			fmt.Fprintf(w, "[-] %s: %s\n", r.name, inLine(r.err))
		case r.err != nil:
			fmt.Fprintf(w, "[!] %s: %s\n", r.name, inLine(r.err))
		case query.Has("verbose"):
			fmt.Fprintf(w, "[+] %s\n", r.name)
		}
	}
	fmt.Fprintln(w, word)
}

// inLine returns the text of an error in one line: errors of backends have several.
func inLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// phase is the node's position in its life cycle, and what a start waits for; it is the
// readiness check "node".
type phase struct {
	mu    sync.Mutex
	name  string
	waits error
}

func (p *phase) set(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name, p.waits = name, nil
}

func (p *phase) check(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.name == "":
		return nil
	case p.waits != nil:
		return fmt.Errorf("%s: %s", p.name, strings.Join(strings.Fields(p.waits.Error()), " ")) // a check is one line
	}
	return errors.New(p.name)
}

func (p *phase) wait(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = err
}

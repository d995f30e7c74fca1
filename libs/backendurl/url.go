// Package backendurl parses the URLs that choose backends at startup: for the discovery of peers,
// and for leases.
//
// # What this does not do
//
// It opens nothing, and it knows no backend: each backend asks for its own parameters.
package backendurl

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// URL is the address of a backend taken apart, for the backend that reads it:
// scheme://hosts/path?parameters. A caller gets every parameter by name; after that, Err names
// those that are invalid or unknown.
type URL struct {
	Scheme string
	Hosts  string // what stands between // and /, such as "a:1,b:2"
	Path   string // without the slashes around it

	given url.Values
	known []string
	errs  []error
}

// ParseURL takes a URL apart. Errors do not repeat the URL: it may hold a secret.
func ParseURL(raw string) (*URL, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, errors.New("after the scheme comes ://")
	}
	if strings.Contains(rest, "#") {
		return nil, errors.New("unknown fragment, behind #; write %23 for a # that belongs to a name")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	if strings.Contains(hosts, "@") {
		return nil, errors.New("user and password do not belong into a URL, which everybody can read; give the names of files as parameters")
	}
	given, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("its parameters cannot be parsed: %w", err)
	}
	if path, err = url.PathUnescape(path); err != nil {
		return nil, fmt.Errorf("its path cannot be parsed: %w", err)
	}
	return &URL{Scheme: scheme, Hosts: hosts, Path: strings.Trim(path, "/"), given: given}, nil
}

func (u *URL) bad(format string, args ...any) { u.errs = append(u.errs, fmt.Errorf(format, args...)) }

// Text returns a parameter, or the parameter otherwise if it is not given.
func (u *URL) Text(name, otherwise string) string {
	u.known = append(u.known, name)
	values, ok := u.given[name]
	if !ok {
		return otherwise
	}
	if len(values) != 1 || values[0] == "" {
		u.bad("parameter %s is given %d times or empty; give it once, or leave it out", name, len(values))
		return otherwise
	}
	return values[0]
}

// OneOf is a parameter with few values.
func (u *URL) OneOf(name, otherwise string, others ...string) string {
	s := u.Text(name, otherwise)
	if s != otherwise && !slices.Contains(others, s) {
		u.bad("parameter %s is %.40q; it is one of %s", name, s, strings.Join(append([]string{otherwise}, others...), ", "))
		return otherwise
	}
	return s
}

// Duration is a parameter such as 10s, within limits.
func (u *URL) Duration(name string, otherwise, low, high time.Duration) time.Duration {
	s := u.Text(name, "")
	if s == "" {
		return otherwise
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < low || d > high {
		u.bad("parameter %s is %.40q; it is a time from %v to %v, such as %v", name, s, low, high, otherwise)
		return otherwise
	}
	return d
}

// Port is a parameter from 1 to 65535, or 0 without being given.
func (u *URL) Port(name string) int {
	s := u.Text(name, "")
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		u.bad("parameter %s is %.40q; it is a port from 1 to 65535", name, s)
	}
	return int(n)
}

// Err returns the error of the parameters, once all known ones have been read. It names the
// parameter and the known ones.
func (u *URL) Err() error {
	var names []string
	for name := range u.given {
		if !slices.Contains(u.known, name) {
			names = append(names, ParameterName(name))
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		takes := "none"
		if len(u.known) > 0 {
			takes = strings.Join(slices.Sorted(slices.Values(u.known)), ", ")
		}
		u.bad("unknown parameter %s; %s takes %s", strings.Join(names, ", "), u.Scheme, takes)
	}
	return errors.Join(u.errs...)
}

// ParameterName quotes the name of an unknown parameter for an error. A piece of a
// password with a ? in it is none, and is not shown.
func ParameterName(name string) string {
	if strings.ContainsAny(name, ":/@") {
		return strconv.Quote(hidden)
	}
	return strconv.Quote(name)
}

// Secret reads a secret from a file anew, so that it can be changed: the text
// without white space around it. No path, no secret.
func Secret(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	s := strings.TrimSpace(string(text))
	if s == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return s, nil
}

// Endpoints are the hosts as URLs, each a host and a port.
func (u *URL) Endpoints(tls bool) ([]string, error) {
	scheme := "http://"
	if tls {
		scheme = "https://"
	}
	var out []string
	for _, h := range strings.Split(u.Hosts, ",") {
		host, port, err := net.SplitHostPort(h)
		if n, _ := strconv.ParseUint(port, 10, 16); err != nil || host == "" || n == 0 {
			return nil, fmt.Errorf("%.80q is not host:port; write for example 10.0.0.2:2379", h)
		}
		out = append(out, scheme+h)
	}
	return out, nil
}

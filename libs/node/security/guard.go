package security

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/errornumber"
	"github.com/roost-cluster/roost/libs/node/telemetry"
)

// guard refuses requests that no handler should see: those that a web page sends with the
// rights of the user who views it, and those whose path the multiplexer would change to
// another one.
type Guard struct {
	// hosts are the Host names that are accepted, in addition to loopback addresses; nil: any. A
	// web site can make its own name resolve to 127.0.0.1, and then has the same origin.
	Hosts []string
	// AnyAddress is true if every IP address is accepted, too: no web site has one as its name.
	AnyAddress bool
	Origins    *Origins
	Log        *slog.Logger // of refused names
	strange    telemetry.Repeated
}

// refuses answers a request that is not served, and the preflight request of a browser.
// It reports whether it did.
func (g *Guard) Refuses(w http.ResponseWriter, r *http.Request) bool {
	if unclean(r.URL.EscapedPath()) && r.Method != http.MethodConnect {
		bounded.Refuse(w, http.StatusNotFound, "bad_route", errornumber.NoRoute,
			`no route: the path has an empty part, "." or ".."; in an id, write / as %2F and . as %2E`)
		return true
	}
	// A rule of a proxy about a path would not see an escaped letter, and what decides here would see it decoded.
	if part := needless(cmp.Or(r.URL.RawPath, r.URL.EscapedPath())); part != "" {
		bounded.Refuse(w, http.StatusNotFound, "bad_route", errornumber.NoRoute,
			fmt.Sprintf("no route: the path has %s, and letters, digits, - _ and ~ need no escape, nor do dots but in ids; write them as they are", part))
		return true
	}
	if g.Hosts != nil && !g.knows(r.Host) {
		// A peer may be among those that are refused, and is then declared down for a reason that only this line has.
		g.strange.Warn(g.Log, "request for another host was refused", "host", r.Host, "from", r.RemoteAddr, "path", r.URL.Path,
			"hint", "add the name to http.allowed_hosts if it is this process")
		bounded.Refuse(w, http.StatusForbidden, "permission_denied", errornumber.StrangeOrigin,
			fmt.Sprintf("this listener is not %.100q; ask for localhost or an address, or add the name to http.allowed_hosts", r.Host))
		return true
	}
	return g.Origins.refuses(w, r)
}

// knows reports whether a Host header names this listener. Clients without one are not
// browsers.
func (g *Guard) knows(host string) bool {
	if slices.Contains(g.Hosts, host) { // as it is, without work
		return true
	}
	host = HostName(host)
	if host == "" || slices.Contains(g.Hosts, host) {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && (g.AnyAddress || ip.IsLoopback())
}

// unclean reports whether http.ServeMux would redirect a path to another one.
func unclean(path string) bool {
	if strings.Contains(path, "//") {
		return true
	}
	for rest := path; ; {
		i := strings.Index(rest, "/.")
		if i < 0 {
			return false
		}
		rest = rest[i+1:]
		part, _, _ := strings.Cut(rest, "/")
		if part == "." || part == ".." {
			return true
		}
	}
}

// entities is the beginning of the paths that have ids in them.
const entities = "/v1/"

// needless returns the first escape in a path of a character that needs none (the unreserved ones of RFC 3986); empty:
// there is none. Dots in paths with ids are an exception: an id of dots would be taken for a relative path. The gateway
// refuses them in the names of types and commands. The names of Twirp services have dots, and no ids.
func needless(path string) string {
	dots := strings.HasPrefix(path, entities)
	for i := strings.IndexByte(path, '%'); i >= 0 && i+2 < len(path); {
		escape := path[i : i+3]
		if b, err := hex.DecodeString(escape[1:]); err == nil && (unreserved(b[0]) || b[0] == '.' && !dots) {
			return escape
		}
		next := strings.IndexByte(path[i+1:], '%')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return ""
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '~'
}

// HostName returns the name in a Host header or address, in one spelling: a name that ends with a dot is absolute, which
// a host name always is here.
func HostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

// origins decides which web pages may send requests that could change something.
type Origins struct {
	allowed []string
	cross   *http.CrossOriginProtection
}

func NewOrigins(allowed []string) (*Origins, error) {
	o := &Origins{allowed: allowed, cross: http.NewCrossOriginProtection()}
	var errs []error
	for _, origin := range allowed {
		if err := o.cross.AddTrustedOrigin(origin); err != nil {
			errs = append(errs, fmt.Errorf("%q is not an origin such as https://shop.example: %w", origin, err))
		}
	}
	return o, errors.Join(errs...)
}

// What pages of allowed origins may send and read.
const (
	corsMethods = "GET, POST"
	corsHeaders = "Authorization, Content-Type, Idempotency-Key, Roost-Tell, Roost-Timeout, Traceparent"
	corsExposed = "Retry-After, Server-Timing"
)

func (o *Origins) refuses(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header["Origin"]
	if len(origin) == 1 && slices.Contains(o.allowed, origin[0]) {
		h := w.Header()
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Allow-Origin", origin[0])
		h.Set("Access-Control-Expose-Headers", corsExposed)
		if r.Method == http.MethodOptions && r.Header["Access-Control-Request-Method"] != nil {
			h.Set("Access-Control-Allow-Methods", corsMethods)
			h.Set("Access-Control-Allow-Headers", corsHeaders)
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return true
		}
	}
	if o.cross.Check(r) == nil {
		return false
	}
	pages := "web pages of other origins" // browsers may omit the origin
	if name := r.Header.Get("Origin"); name != "" {
		pages = fmt.Sprintf("web pages of %.100q", name)
	}
	bounded.Refuse(w, http.StatusForbidden, "permission_denied", errornumber.StrangeOrigin,
		"requests of "+pages+" are not served; http.allowed_origins lists the origins that are allowed")
	return true
}

package node

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/errornumber"
	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/security"
)

// access is the permission that a request to the management listener needs.
type access uint8

const (
	write       access = iota // a token that is not for reading only, if there are tokens
	read                      // a token, if management.token_for is all
	unprotected               // nothing
)

// HandleManagement serves a pattern on the management listener, for requests that change something.
// They need a management token, if management.tokens is set, and each has lines in the audit.
func (n *Node) HandleManagement(pattern string, handler http.Handler) {
	n.handleManagement(pattern, needs(write), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end, err := n.audit.Begin(r.Context(), r.Method+" "+r.URL.Path, nil)
		if err != nil {
			bounded.Refuse(w, http.StatusServiceUnavailable, "unavailable", errornumber.Unavailable, err.Error())
			return
		}
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		defer func() { end(fmt.Sprintf("HTTP %d", recorder.status)) }()
		handler.ServeHTTP(recorder, r)
	}))
}

// HandleManagementRead is HandleManagement for requests that change nothing. They need a token only if
// management.token_for is all.
func (n *Node) HandleManagementRead(pattern string, handler http.Handler) {
	n.handleManagement(pattern, needs(read), handler)
}

// HandleManagementOpen is HandleManagement for what never needs a token, such as probes.
func (n *Node) HandleManagementOpen(pattern string, handler http.Handler) {
	n.handleManagement(pattern, needs(unprotected), handler)
}

// HandleOperations serves a Twirp service for operators on the management listener. reads are the methods that change
// nothing. server makes the service with the given options.
func (n *Node) HandleOperations(prefix string, reads []string, server func(options ...any) http.Handler) {
	need := func(r *http.Request) access {
		if slices.Contains(reads, strings.TrimPrefix(r.URL.Path, prefix)) {
			return read
		}
		return write
	}
	n.handleManagement(prefix, need, server(twirp.WithServerInterceptors(n.audit.Interceptor(reads))))
}

// CheckToken returns an error if management tokens are configured and a request has none of them.
func (n *Node) CheckToken(r *http.Request) error {
	if n.operators == nil {
		return nil
	}
	_, err := n.operators.Find(r)
	if err != nil {
		n.intruder(r, err)
	}
	return err
}

// intruder logs a request that is refused because of its token.
func (n *Node) intruder(r *http.Request, reason error) {
	n.intruders.Warn(n.log, "a request to the management listener is refused", "from", r.RemoteAddr, "path", r.URL.Path, "reason", reason)
}

// Management returns the handler of the management listener, for another handler that passes calls on. Each such call
// needs the same token, and has the same lines in the audit, as if it came from outside.
func (n *Node) Management() http.Handler { return n.management.mux }

// ManagementScheme is https if the management listener has a certificate, otherwise http.
func (n *Node) ManagementScheme() string {
	if n.config.Management.Cert != "" {
		return "https"
	}
	return "http"
}

func needs(a access) func(*http.Request) access { return func(*http.Request) access { return a } }

// handleManagement serves a pattern for operators who have the access that a request needs.
func (n *Node) handleManagement(pattern string, need func(*http.Request) access, handler http.Handler) {
	handler = n.management.limited(handler, nil)
	n.management.mux.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := n.operatorOf(r, need(r))
		if err != nil {
			n.intruder(r, err)
			if errors.Is(err, security.ErrUnauthenticated) {
				w.Header().Set("WWW-Authenticate", "Bearer")
				bounded.Refuse(w, http.StatusUnauthorized, "unauthenticated", errornumber.Unauthenticated, err.Error())
			} else {
				bounded.Refuse(w, http.StatusForbidden, "permission_denied", errornumber.PermissionDenied, err.Error())
			}
			return
		}
		handler.ServeHTTP(w, r.WithContext(security.WithOperator(r.Context(), who, r.RemoteAddr)))
	}))
}

// operatorOf returns who sends a request, or an error if the request must not be served.
func (n *Node) operatorOf(r *http.Request, need access) (who security.Operator, err error) {
	if n.operators == nil || need == unprotected || need == read && n.config.Management.TokenFor != config.TokenForAll {
		return who, nil
	}
	found, err := n.operators.Find(r)
	switch {
	case err != nil:
		return who, err
	case need == write && found.ReadOnly:
		return who, fmt.Errorf("the token of %s is for reading only", found.Name)
	}
	return found, nil
}

// hostNames returns the Host names that a listener on loopback accepts.
func hostNames(config *config.Config) []string {
	names := []string{"localhost"}
	for _, name := range append([]string{config.Advertise}, config.AllowedHosts...) {
		if name = security.HostName(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// managementHosts returns the host names that requests to the management listener may have.
func (n *Node) managementHosts() []string {
	names := append(hostNames(n.config), security.HostName(n.name))
	if own, err := os.Hostname(); err == nil {
		names = append(names, security.HostName(own))
	}
	return names
}

// protectManagement sets up tokens, the audit and TLS of the management listener.
func (n *Node) protectManagement(badFile func(error)) (err error) {
	c := &n.config.Management
	if n.operators, err = security.OpenOperators("management.tokens", c.Tokens, badFile); err != nil {
		return err
	}
	if n.audit, err = security.OpenAudit(c.Audit, n.name, n.log); err != nil {
		return err
	}
	n.management.guard.Hosts, n.management.guard.AnyAddress = n.managementHosts(), true
	if c.Cert != "" {
		files, err := security.LoadFiles("management", security.TLS(c.ManagementTLS), badFile)
		if err != nil {
			return err
		}
		n.management.secure(files)
	}
	if !loopback(n.management.Addr()) && n.operators == nil {
		n.log.Warn("the management listener does not authenticate clients", "hint", "set management.tokens, or keep management.listen on loopback", "addr", n.ManagementAddr())
	}
	return nil
}

// statusRecorder remembers the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap implements the method that [http.ResponseController] looks for.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

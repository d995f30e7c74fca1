// Package kubeapi is a client of the Kubernetes API server: plain REST with the
// pod's service account (https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/).
// It does not interpret the objects.
//
// # What this does not do
//
// It reads no kubeconfig files, caches nothing and retries nothing.
package kubeapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/backendurl"
)

// Account is the directory of a pod's service account.
const Account = "/var/run/secrets/kubernetes.io/serviceaccount"

const (
	// maxAnswer bounds an answer: each requested object has a few kilobytes.
	maxAnswer = 16 << 20
	// maxReason bounds the part of a refusal that an error repeats.
	maxReason = 500
	// timeout bounds every request except watches.
	timeout = 10 * time.Second
	// A connection without input for quiet gets a ping, and is closed if it does not answer within answerPing. All
	// requests share a connection. If the machine of the API server vanishes, nothing says so, and without this the
	// requests would wait for a dead connection until TCP gives up, after a quarter of an hour. The sum is above
	// lease.ttl as the manifests set it: a server that is slow is not a reason for a new connection.
	quiet, answerPing = 5 * time.Second, 3 * time.Second
)

// Client is a client for one namespace of one API server.
type Client struct {
	base, namespace string
	token           string // path of the token file
	http            *http.Client
	transport       *http.Transport
}

// New returns a client for the namespace that is the URL's host, such as
// kubernetes://prod; if there is none, for the pod's own. Parameters are api (URL of the
// API server), token_file and ca; their defaults in a pod are from its service account.
// The token is read for every request, because it expires.
func New(u *backendurl.URL) (*Client, error) {
	c := &Client{namespace: u.Hosts, token: u.Text("token_file", "")}
	api, ca := u.Text("api", ""), u.Text("ca", "")
	if err := u.Err(); err != nil {
		return nil, err
	}
	if c.namespace == "" {
		var err error
		if c.namespace, err = backendurl.Secret(filepath.Join(Account, "namespace")); err != nil {
			return nil, fmt.Errorf("no namespace is given, and this process is not in a pod: %w; write for example kubernetes://prod", err)
		}
	}
	if strings.Trim(c.namespace, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, fmt.Errorf("%.80q is not a valid namespace", c.namespace)
	}
	if api == "" {
		host := os.Getenv("KUBERNETES_SERVICE_HOST")
		if host == "" {
			return nil, errors.New("this process is not in a pod: set the parameter api to the URL of the API server")
		}
		api = "https://" + net.JoinHostPort(host, cmp.Or(os.Getenv("KUBERNETES_SERVICE_PORT"), "443"))
		c.token, ca = cmp.Or(c.token, filepath.Join(Account, "token")), cmp.Or(ca, filepath.Join(Account, "ca.crt"))
	}
	base, err := url.Parse(api)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" || base.User != nil {
		return nil, errors.New("parameter api must be a URL such as https://10.0.0.1:6443")
	}
	c.base = strings.TrimSuffix(base.String(), "/")
	secure := backendurl.TrustedBy(ca)
	if _, err := secure.Config(); err != nil {
		return nil, err
	}
	c.transport = &http.Transport{
		MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: quiet, PingTimeout: answerPing},
	}
	secure.Use(c.transport)
	c.http = &http.Client{Transport: c.transport}
	return c, nil
}

// Namespace returns the client's namespace.
func (c *Client) Namespace() string { return c.namespace }

// Where returns the server and the namespace, for error messages.
func (c *Client) Where() string { return "kubernetes " + c.base + " namespace " + c.namespace }

// Close closes the idle connections.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// Error is a refusal by the API server.
type Error struct {
	Code   int    // HTTP status
	Reason string // in the server's words
}

// Error returns the code, the reason, and what to do about the usual ones.
func (e *Error) Error() string {
	s := fmt.Sprintf("the API server answers %d: %s", e.Code, e.Reason)
	switch e.Code {
	case http.StatusUnauthorized:
		s += "; is the token of the service account mounted and fresh?"
	case http.StatusForbidden:
		s += "; give the service account a role that allows it"
	}
	return s
}

// Is reports whether err is a refusal with that HTTP status.
func Is(err error, code int) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// Do sends in, if not nil, as JSON to a path below the namespace in an API group, such as
// ("coordination.k8s.io/v1", "leases/x"), and decodes the answer into out, if not nil.
func (c *Client) Do(ctx context.Context, method, group, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := c.Stream(ctx, method, group, path, in)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxAnswer:
		return fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the answer cannot be decoded: %w", err)
	}
	return nil
}

// Stream is like Do, but returns the answer's body as it arrives, for watches. The caller
// must close it; ctx bounds the request.
func (c *Client) Stream(ctx context.Context, method, group, path string, in any) (io.ReadCloser, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	api := "/apis/"
	if !strings.Contains(group, "/") {
		api = "/api/" // the core group has no name, only a version
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+api+group+"/namespaces/"+c.namespace+"/"+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	token, err := backendurl.Secret(c.token)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 == 2 {
		return res.Body, nil
	}
	defer func() { _ = res.Body.Close() }()
	return nil, refusal(res)
}

// refusal reads the server's Status object.
func refusal(res *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // without it the status code has to do
	var status struct{ Message string }
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = http.StatusText(res.StatusCode)
	}
	return &Error{res.StatusCode, fmt.Sprintf("%.*s", maxReason, status.Message)}
}

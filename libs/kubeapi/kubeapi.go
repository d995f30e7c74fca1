// Package kubeapi speaks to the API server of Kubernetes: plain REST with the
// pod's service account (https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/).
// What the objects mean is for its users to know.
//
// # What this does not do
//
// It knows no kubeconfig files, no caches and no versions of objects other than
// those that its users name. It retries nothing.
package kubeapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
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

// Account is where a pod finds its service account.
const Account = "/var/run/secrets/kubernetes.io/serviceaccount"

const (
	// maxAnswer bounds an answer: the objects of a namespace that are asked for
	// have a few kilobytes each.
	maxAnswer = 16 << 20
	// maxReason is how much of a refusal is repeated in the error.
	maxReason = 500
	// timeout bounds a request whose context does not, a watch excepted.
	timeout = 10 * time.Second
)

// Client speaks to one API server about one namespace.
type Client struct {
	base, namespace string
	token           string // the name of its file
	http            *http.Client
	transport       *http.Transport
}

// New makes a client for the namespace that the URL has as its host, such as
// kubernetes://prod; without one it is that of the pod. Parameters: api (URL of
// the API server), token_file and ca; without them a process in a pod uses what
// its service account gives it. The token is read at every request, since it
// expires.
func New(u *backendurl.URL) (*Client, error) {
	c := &Client{namespace: u.Hosts, token: u.Text("token_file", "")}
	api, ca := u.Text("api", ""), u.Text("ca", "")
	if err := u.Err(); err != nil {
		return nil, err
	}
	if c.namespace == "" {
		var err error
		if c.namespace, err = backendurl.Secret(filepath.Join(Account, "namespace")); err != nil {
			return nil, fmt.Errorf("no namespace is given, and this is no pod that has one: %w; write for example kubernetes://prod", err)
		}
	}
	if strings.Trim(c.namespace, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, fmt.Errorf("%.80q is no name of a namespace", c.namespace)
	}
	if api == "" {
		host := os.Getenv("KUBERNETES_SERVICE_HOST")
		if host == "" {
			return nil, errors.New("this is no pod: the environment names no API server; give one as the parameter api")
		}
		api = "https://" + net.JoinHostPort(host, cmp.Or(os.Getenv("KUBERNETES_SERVICE_PORT"), "443"))
		c.token, ca = cmp.Or(c.token, filepath.Join(Account, "token")), cmp.Or(ca, filepath.Join(Account, "ca.crt"))
	}
	base, err := url.Parse(api)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" || base.User != nil {
		return nil, errors.New("parameter api is no URL such as https://10.0.0.1:6443")
	}
	c.base = strings.TrimSuffix(base.String(), "/")
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("parameter ca: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("parameter ca: %s has no certificate in PEM", ca)
		}
	}
	c.transport = &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true}
	c.http = &http.Client{Transport: c.transport}
	return c, nil
}

// Namespace is the namespace that it speaks about.
func (c *Client) Namespace() string { return c.namespace }

// Where is the namespace at the server, for error messages.
func (c *Client) Where() string { return "kubernetes " + c.base + " namespace " + c.namespace }

// Close gives the connections back.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// Error is a refusal by the API server.
type Error struct {
	Code   int    // HTTP status
	Reason string // in the server's words
}

// Error is the code and the reason, and what to do about the usual ones.
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

// Do sends in, if not nil, as JSON to the path below the namespace of an API
// group, such as ("coordination.k8s.io/v1", "leases/x"), and reads the answer
// into out, if not nil.
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
		return fmt.Errorf("the answer makes no sense: %w", err)
	}
	return nil
}

// Stream is Do for answers that are read as they come, such as watches. The
// caller closes the body; ctx bounds it.
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
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // what cannot be read is no reason
	var status struct{ Message string }
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = http.StatusText(res.StatusCode)
	}
	return &Error{res.StatusCode, fmt.Sprintf("%.*s", maxReason, status.Message)}
}

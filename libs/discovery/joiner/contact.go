package joiner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"syscall"

	"github.com/roost-cluster/roost/libs/bootstrap"
)

// URL paths of a node. Path is served by both listeners, the others by the
// management listener.
const (
	Path       = "/bootstrap/seed-nodes"
	StatusPath = "/bootstrap/status"
	JoinPath   = "/bootstrap/join"
)

// maxAnswer bounds the answers and requests that are read, in bytes. It is many times the
// size of an answer with five members with long names.
const maxAnswer = 64 << 10

// Node is the part of a node that serves a Joiner's handlers.
type Node interface {
	HandleMembers(pattern string, handler http.Handler)
	HandleManagement(pattern string, handler http.Handler)
	HandleManagementRead(pattern string, handler http.Handler)
	Ready(name string, check func(context.Context) error)
}

// Register registers the contact point on both listeners of a node, status and explicit
// join on its management listener, and a readiness check. It must be called before Run.
func (j *Joiner) Register(n Node, m Membership) {
	j.members.Store(&m)
	n.HandleMembers("GET "+Path, http.HandlerFunc(j.serveSeedNodes))
	n.HandleManagementRead("GET "+Path, http.HandlerFunc(j.serveSeedNodes))
	n.HandleManagementRead("GET "+StatusPath, http.HandlerFunc(j.serveStatus))
	n.HandleManagement("POST "+JoinPath, http.HandlerFunc(j.serveJoin))
	n.Ready("bootstrap", j.ready)
}

func (j *Joiner) serveSeedNodes(w http.ResponseWriter, _ *http.Request) {
	v := (*j.members.Load()).Members()
	writeJSON(w, http.StatusOK, bootstrap.AnswerOf(&v, j.cfg.Cluster, j.cfg.Roles))
}

// serveStatus serves the state of the search.
func (j *Joiner) serveStatus(w http.ResponseWriter, _ *http.Request) {
	type status struct {
		Discovery string   `json:"discoveryUrl,omitempty"`
		Seeds     []string `json:"configuredSeeds,omitempty"`
		InCluster bool     `json:"inCluster"`
		bootstrap.Status
	}
	s := status{Discovery: j.url, Seeds: j.cfg.Seeds, InCluster: (*j.members.Load()).Members().InCluster, Status: *j.status.Load()}
	if j.watch == nil {
		s.Discovery, s.Phase = "", "off"
	}
	writeJSON(w, http.StatusOK, s)
}

// serveJoin serves an operator's request to join through certain members.
func (j *Joiner) serveJoin(w http.ResponseWriter, r *http.Request) {
	refuse := func(code int, format string, args ...any) {
		writeJSON(w, code, map[string]string{"error": fmt.Sprintf(format, args...)})
	}
	// This also refuses forms of other web sites.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(http.StatusUnsupportedMediaType, "send Content-Type: application/json")
		return
	}
	var req struct {
		SeedNodes []string `json:"seedNodes"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxAnswer)).Decode(&req); err != nil || len(req.SeedNodes) == 0 {
		refuse(http.StatusBadRequest, `write {"seedNodes": ["host:port"]}`)
		return
	}
	for _, s := range req.SeedNodes {
		if _, ok := bootstrap.ParseContactPoint(s); !ok {
			refuse(http.StatusBadRequest, "seedNodes: %.80q is not host:port", s)
			return
		}
	}
	if j.watch == nil || (*j.members.Load()).Members().InCluster {
		refuse(http.StatusConflict, "this node is in a cluster already, or was told by cluster.seeds where to join")
		return
	}
	select {
	case j.inbox <- bootstrap.ExplicitJoin{Seeds: req.SeedNodes}:
		writeJSON(w, http.StatusAccepted, map[string][]string{"joining": req.SeedNodes})
	default:
		refuse(http.StatusServiceUnavailable, "too much is waiting; try again")
	}
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// query sends a request to one contact point and puts the answer into the inbox.
func (j *Joiner) query(ctx context.Context, addr string) {
	asking, cancel := context.WithTimeout(ctx, j.cfg.Bootstrap.QueryTimeout)
	defer cancel()
	var in bootstrap.Input
	if a, err := j.ask(asking, addr); err != nil {
		in = bootstrap.QueryFailed{Addr: addr, Reason: reason(err)}
	} else {
		in = bootstrap.Answered{Addr: addr, Answer: a}
	}
	select {
	case j.inbox <- in:
	case <-ctx.Done():
	}
}

func (j *Joiner) ask(ctx context.Context, addr string) (a bootstrap.Answer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, j.cfg.contactURL(addr), nil)
	if err != nil {
		return a, err
	}
	res, err := j.cfg.Client.Do(req)
	if err != nil {
		return a, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return a, err
	case res.StatusCode != http.StatusOK:
		return a, fmt.Errorf("it answers %s to GET %s: is this a node of the cluster?", res.Status, Path)
	case len(body) > maxAnswer:
		return a, fmt.Errorf("its answer is longer than %d bytes", maxAnswer)
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return a, fmt.Errorf("its answer to GET %s is not the JSON of a contact point", Path)
	}
	return a, nil
}

// reason returns why there is no answer, without parts that differ each time, such as the
// port of the connection, because changes are logged.
func reason(err error) string {
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		return "connection lost"
	case errors.As(err, &dns):
		return "no such host"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	const most = 200
	text := err.Error()
	return text[:min(len(text), most)]
}

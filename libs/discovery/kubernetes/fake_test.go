package kubernetes_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/discovery"
)

// apiServer is not a Kubernetes: it imitates, for the EndpointSlices of
// one namespace, list and watch as the API's documentation describes them ("Kubernetes API
// Concepts"): TLS, bearer tokens and 401, permissions and 403, label selectors,
// pages with continue tokens, resource versions, watches that begin after a
// version, tell of every change and end in time, and 410 for versions that are no
// longer kept, in the status or in the stream.
type apiServer struct {
	*httptest.Server
	dir  string
	addr string

	mu       sync.Mutex
	version  int // of the latest change
	oldest   int // versions below it are not kept
	slices   map[string]object
	events   []event
	changed  chan struct{} // closed at the next change
	pages    int           // slices per page at most; 0: as many as asked for
	token    string
	denied   map[string]bool // verbs
	silent   bool
	inStream bool // tell of expired versions in the stream
	forget   bool // the versions before the next page, once
	lists    int
}

type object map[string]any

type event struct {
	version int
	Type    string `json:"type"`
	Object  object `json:"object"`
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	a := &apiServer{dir: t.TempDir(), slices: map[string]object{}, changed: make(chan struct{}), token: "secret", denied: map[string]bool{}}
	a.write(t, "token", "secret\n")
	a.up(t)
	t.Cleanup(func() { a.Close() })
	a.write(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})))
	return a
}

func (a *apiServer) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// up listens, at the address it had before if any.
func (a *apiServer) up(t *testing.T) {
	t.Helper()
	s := httptest.NewUnstartedServer(a)
	if a.addr != "" {
		l, err := net.Listen("tcp", a.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Listener.Close()
		s.Listener = l
	}
	s.Config.ErrorLog = nil
	s.StartTLS()
	a.Server, a.addr = s, s.Listener.Addr().String()
}

func (a *apiServer) down() {
	a.CloseClientConnections()
	a.Close()
}

// url is a URL of the service "roost".
func (a *apiServer) url(more string) string {
	return fmt.Sprintf("kubernetes://prod/roost?api=https://%s&ca=%s&token_file=%s%s", a.addr, filepath.Join(a.dir, "ca.crt"), filepath.Join(a.dir, "token"), more)
}

// set makes the slices exactly these: what is new is added, what is gone deleted.
func (a *apiServer) set(slices ...object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silent, a.denied = false, map[string]bool{}
	wanted := map[string]bool{}
	for _, s := range slices {
		wanted[nameOf(s)] = true
	}
	for name, s := range a.slices {
		if !wanted[name] {
			delete(a.slices, name)
			a.happened("DELETED", s)
		}
	}
	for _, s := range slices {
		kind := "ADDED"
		if _, ok := a.slices[nameOf(s)]; ok {
			kind = "MODIFIED"
		}
		a.slices[nameOf(s)] = s
		a.happened(kind, s)
	}
}

func nameOf(s object) string { return s["metadata"].(map[string]any)["name"].(string) }

func (a *apiServer) happened(kind string, s object) {
	a.version++
	a.events = append(a.events, event{a.version, kind, s})
	close(a.changed)
	a.changed = make(chan struct{})
}

// compact forgets the past.
func (a *apiServer) compact() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.oldest, a.events = a.version, nil
}

func (a *apiServer) do(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	silent, token := a.silent, a.token
	q := r.URL.Query()
	verb := "list"
	if q.Get("watch") == "1" {
		verb = "watch"
	}
	denied := a.denied[verb]
	a.mu.Unlock()
	switch {
	case silent:
		<-r.Context().Done()
	case r.Header.Get("Authorization") != "Bearer "+token:
		refuse(w, http.StatusUnauthorized, "Unauthorized")
	case r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/prod/endpointslices" || r.Method != http.MethodGet:
		refuse(w, http.StatusForbidden, "cannot do that at "+r.URL.Path)
	case denied:
		refuse(w, http.StatusForbidden, "endpointslices.discovery.k8s.io is forbidden: cannot "+verb)
	case verb == "watch":
		a.watch(w, r.Context(), q.Get("resourceVersion"), q.Get("timeoutSeconds"))
	default:
		a.list(w, q.Get("labelSelector"), q.Get("limit"), q.Get("continue"))
	}
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status(code, message))
}

func status(code int, message string) object {
	return object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}
}

func (a *apiServer) list(w http.ResponseWriter, selector, limit, next string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lists++
	most, err := strconv.Atoi(limit)
	if a.pages > 0 {
		most = min(most, a.pages)
	}
	if err != nil || selector != "kubernetes.io/service-name in (roost)" {
		refuse(w, http.StatusBadRequest, "limit "+limit+", selector "+selector)
		return
	}
	// A continue token is the version of the list and the name to go on from.
	version, from := a.version, ""
	if next != "" {
		if _, err := fmt.Sscanf(strings.Replace(next, "/", " ", 1), "%d %s", &version, &from); err != nil || version < a.oldest {
			refuse(w, http.StatusGone, "The provided continue parameter is too old")
			return
		}
	}
	metadata := object{"resourceVersion": strconv.Itoa(version)}
	items := []object{}
	for _, name := range sorted(a.slices) {
		if name < from {
			continue
		}
		if len(items) == most {
			metadata["continue"] = fmt.Sprintf("%d/%s", version, name)
			if a.forget {
				a.forget = false
				a.version++
				a.oldest, a.events = a.version, nil
			}
			break
		}
		items = append(items, a.slices[name])
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object{"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": metadata, "items": items})
}

func (a *apiServer) watch(w http.ResponseWriter, ctx context.Context, version, timeout string) {
	after, err := strconv.Atoi(version)
	seconds, err2 := strconv.Atoi(timeout)
	if err != nil || err2 != nil {
		refuse(w, http.StatusBadRequest, "version "+version+", timeout "+timeout)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	stream := json.NewEncoder(w)
	a.mu.Lock()
	if old := after < a.oldest; old && !a.inStream {
		a.mu.Unlock()
		refuse(w, http.StatusGone, "too old resource version")
		return
	} else if old {
		a.mu.Unlock()
		_ = stream.Encode(event{0, "ERROR", status(http.StatusGone, "too old resource version")})
		return
	}
	a.mu.Unlock()
	_ = stream.Encode(event{0, "BOOKMARK", object{}})
	for {
		w.(http.Flusher).Flush()
		a.mu.Lock()
		changed := a.changed
		for _, e := range a.events {
			if e.version > after {
				after = e.version
				_ = stream.Encode(e)
			}
		}
		a.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// endpointSlice is a slice of one service port.
func endpointSlice(name, typ string, labels map[string]any, port any, addresses ...string) object {
	labels["kubernetes.io/service-name"] = "roost"
	var endpoints []any
	for _, a := range addresses {
		endpoints = append(endpoints, map[string]any{"addresses": []string{a}, "conditions": map[string]any{"ready": true}})
	}
	return object{
		"metadata": map[string]any{"name": name, "labels": labels}, "addressType": typ, "endpoints": endpoints,
		"ports": []any{map[string]any{"name": "service", "port": port, "protocol": "TCP"}},
	}
}

// slices has one for each peer: ports and roles are a slice's.
func slices(t *testing.T, peers []discovery.Peer) []object {
	t.Helper()
	var out []object
	for i, p := range peers {
		host, port, err := net.SplitHostPort(p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		typ := "FQDN"
		if ip := net.ParseIP(host); ip != nil && ip.To4() != nil {
			typ = "IPv4"
		} else if ip != nil {
			typ = "IPv6"
		}
		out = append(out, endpointSlice(fmt.Sprintf("roost-%05d", i), typ, map[string]any{"roost-role": p.Role, "roost-cluster": "test"}, n, host))
	}
	return out
}

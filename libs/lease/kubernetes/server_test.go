package kubernetes

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// apiServer is as much of an API server as Lease objects need, after
// https://kubernetes.io/docs/reference/using-api/api-concepts/: tokens,
// optimistic concurrency by resourceVersion, Status objects for refusals. Its
// objects outlive Kill.
type apiServer struct {
	t     *testing.T
	addr  string
	token string

	mu       sync.Mutex
	goesOn   sync.Cond
	paused   bool
	server   *http.Server
	revision int
	objects  map[string]map[string]any // by path
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{t: t, addr: "127.0.0.1:0", token: "good", objects: map[string]map[string]any{}}
	s.goesOn.L = &s.mu
	s.Run()
	t.Cleanup(s.Kill)
	return s
}

func (s *apiServer) Run() {
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr, s.server = l.Addr().String(), &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func(server *http.Server) { _ = server.Serve(l) }(s.server) // until Kill
}

func (s *apiServer) Kill() {
	s.Resume()
	_ = s.server.Close()
}

func (s *apiServer) Pause() { s.setPaused(true) }

func (s *apiServer) Resume() { s.setPaused(false) }

func (s *apiServer) setPaused(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = paused
	s.goesOn.Broadcast()
}

func (s *apiServer) setToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

func (s *apiServer) delete(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, path)
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.paused {
		s.goesOn.Wait()
	}
	code, answer := s.answer(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // a client that went away needs none
}

func refuse(code int, message string) (int, any) {
	return code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
}

func (s *apiServer) answer(r *http.Request) (int, any) {
	const prefix = "/apis/coordination.k8s.io/v1/namespaces/prod/leases"
	if r.Header.Get("Authorization") != "Bearer "+s.token {
		return refuse(http.StatusUnauthorized, "Unauthorized")
	}
	if !strings.HasPrefix(r.URL.Path, prefix) {
		return refuse(http.StatusForbidden, fmt.Sprintf("User \"system:serviceaccount:prod:roost\" cannot %s %s", r.Method, r.URL.Path))
	}
	stored, exists := s.objects[r.URL.Path]
	if r.Method == http.MethodGet {
		if !exists {
			return refuse(http.StatusNotFound, "not found")
		}
		return http.StatusOK, stored
	}
	var object map[string]any
	if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	meta := object["metadata"].(map[string]any)
	version, _ := meta["resourceVersion"].(string)
	path := r.URL.Path
	switch {
	case r.Method == http.MethodPost:
		if path += "/" + meta["name"].(string); s.objects[path] != nil {
			return refuse(http.StatusConflict, "already exists")
		}
	case !exists:
		return refuse(http.StatusNotFound, "not found")
	case version != stored["metadata"].(map[string]any)["resourceVersion"]:
		return refuse(http.StatusConflict, "the object has been modified")
	}
	s.revision++
	meta["resourceVersion"] = fmt.Sprint(s.revision)
	s.objects[path] = object
	return http.StatusOK, object
}

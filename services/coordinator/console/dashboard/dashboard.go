// Package dashboard serves the web pages of a coordinator's management listener. The pages are files in the binary,
// and load nothing from elsewhere. All that they show comes from the admin API: from samples (pages get only the
// changes, see sampler), or from calls that a page makes through this package.
//
// # What this does not do
//
// It decides nothing, and gives no user more rights than the admin API does. A session stands for a management token.
// Every call of a page is made with this token, and is checked and recorded in the audit as if an operator had sent
// it.
package dashboard

import (
	"context"
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
)

// Prefix is the path below which the dashboard is served.
const Prefix = "/ui/"

//go:embed static
var static embed.FS

// policy allows a page its own files and its own server, and nothing else: no script in a page, no frame
// around it, no form that leaves it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Sampled is the part of the admin API that is sampled.
type Sampled interface {
	Members(context.Context, *adminv1.MembersRequest) (*adminv1.MembersResponse, error)
	Shards(context.Context, *adminv1.ShardsRequest) (*adminv1.ShardsResponse, error)
}

// Config holds the dependencies and settings of a dashboard.
type Config struct {
	// Admin is sampled while at least one page is open.
	Admin Sampled
	// API serves the admin API as the management listener does, and checks who calls.
	API http.Handler
	// CheckToken returns an error if a request does not have a management token that is known.
	CheckToken func(*http.Request) error
	// Elsewhere returns the URL of the management listener of the active coordinator if that is another
	// one; empty: this one is active, or none is known.
	Elsewhere func(context.Context) string
	// SampleEvery is the pause between two samples; 0: a second.
	SampleEvery time.Duration
}

// Dashboard is an http.Handler for everything below [Prefix].
type Dashboard struct {
	cfg      Config
	mux      *http.ServeMux
	sampler  sampler
	sessions sessions
}

// New makes a dashboard.
func New(cfg Config) *Dashboard {
	if cfg.SampleEvery == 0 {
		cfg.SampleEvery = time.Second
	}
	d := &Dashboard{cfg: cfg, mux: http.NewServeMux(), sampler: sampler{admin: cfg.Admin, every: cfg.SampleEvery}}
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the directory is embedded
	}
	d.mux.Handle("GET "+Prefix, http.StripPrefix(Prefix, http.FileServerFS(files)))
	d.mux.HandleFunc("GET "+Prefix+"events", d.events)
	d.mux.HandleFunc("POST "+Prefix+"api/{method}", d.call)
	d.mux.HandleFunc("POST "+Prefix+"ticket", d.ticket)
	d.mux.HandleFunc("POST "+Prefix+"session", d.login)
	return d
}

// ServeHTTP implements [http.Handler].
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	// Only the page itself is redirected, because browsers refuse a stream of events that is redirected to another
	// origin. Instead, the stream reports that this coordinator stands by, and then the browser loads the page again.
	if r.URL.Path == Prefix && r.Method == http.MethodGet {
		if base := d.cfg.Elsewhere(r.Context()); base != "" {
			http.Redirect(w, r, base+Prefix, http.StatusTemporaryRedirect)
			return
		}
	}
	d.mux.ServeHTTP(w, r)
}

// methods are the methods of the admin API that pages may call. All but Command only read.
var methods = []string{"Members", "Shards", "Where", "Why", "Top", "Entities", "Entity", "Regions", "Rollout", "Slow", "Command", explainMethod}

// explainMethod is a method of the service Diagnosis. All others are methods of the service Admin.
const explainMethod = "Explain"

// call makes a call of the admin API with the rights of the session.
func (d *Dashboard) call(w http.ResponseWriter, r *http.Request) {
	method := r.PathValue("method")
	if !slices.Contains(methods, method) {
		refuse(w, http.StatusNotFound, "the dashboard does not call "+method)
		return
	}
	d.cfg.API.ServeHTTP(w, d.request(r, method))
}

// request returns a request of a page as a call of the admin API. It has the token of the session, and no other header
// of the page than Content-Type.
func (d *Dashboard) request(r *http.Request, method string) *http.Request {
	call := r.Clone(r.Context())
	service := adminv1.AdminPathPrefix
	if method == explainMethod {
		service = diagnosisv1.DiagnosisPathPrefix
	}
	call.URL.Path, call.URL.RawPath, call.URL.RawQuery = service+method, "", ""
	call.RequestURI = call.URL.Path
	call.Header = http.Header{}
	call.Header.Set("Content-Type", r.Header.Get("Content-Type"))
	if token := d.sessions.token(r); token != "" {
		call.Header.Set("Authorization", "Bearer "+token)
	}
	return call
}

// mayRead reports whether the session may read, by a call that reads; otherwise it answers as the admin API
// does.
func (d *Dashboard) mayRead(w http.ResponseWriter, r *http.Request) bool {
	call := d.request(r, "Where")
	call.Method, call.Body = http.MethodPost, http.NoBody // without an entity, the call is refused at once, if it may read
	call.ContentLength = 0
	call.Header.Set("Content-Type", "application/protobuf")
	a := &answer{header: http.Header{}, status: http.StatusOK}
	d.cfg.API.ServeHTTP(a, call)
	if a.status != http.StatusUnauthorized && a.status != http.StatusForbidden {
		return true
	}
	refuse(w, a.status, "this cluster wants a management token: open the dashboard with roost cluster dashboard")
	return false
}

// answer keeps the status of an answer.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }
func (a *answer) WriteHeader(status int)      { a.status = status }

// refuse answers an error in the form of Twirp.
func refuse(w http.ResponseWriter, status int, msg string) {
	code := map[int]string{
		http.StatusNotFound: "not_found", http.StatusUnauthorized: "unauthenticated", http.StatusForbidden: "permission_denied",
		http.StatusServiceUnavailable: "unavailable", http.StatusBadRequest: "invalid_argument",
	}[status]
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": code, "msg": msg}) // errors of clients are ignored
}

// bearer is the token in the header of a request.
func bearer(r *http.Request) string {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return token
}

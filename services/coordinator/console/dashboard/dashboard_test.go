package dashboard

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twitchtv/twirp"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// fake is a coordinator with one type.
type fake struct {
	adminv1.Admin
	mu      sync.Mutex
	sampled int
	shards  []*adminv1.Shard
	err     error
}

func (f *fake) Members(context.Context, *adminv1.MembersRequest) (*adminv1.MembersResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sampled++
	return &adminv1.MembersResponse{Self: "coordinator-1", Term: 3}, f.err
}

func (f *fake) Shards(context.Context, *adminv1.ShardsRequest) (*adminv1.ShardsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &adminv1.ShardsResponse{Types: []*adminv1.TypeSummary{{Type: "Cart", Shards: 4}}, Shards: slices.Clone(f.shards)}, nil
}

func (f *fake) set(shards ...*adminv1.Shard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shards = shards
}

func (f *fake) samples() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sampled
}

func at(index uint32, region, phase string) *adminv1.Shard {
	return &adminv1.Shard{Type: "Cart", Index: index, Region: region, Phase: phase}
}

// api answers who calls what, and refuses calls without the token if it wants one.
type api struct{ token string }

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.token != "" && r.Header.Get("Authorization") != "Bearer "+a.token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %s %v", r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), body, r.Header.Get("Cookie")+r.Header.Get("X-Own"))
}

func (a *api) check(r *http.Request) error {
	if a.token != "" && r.Header.Get("Authorization") != "Bearer "+a.token {
		return errors.New("the management token is not known")
	}
	return nil
}

func newDashboard(f *fake, a *api) *Dashboard {
	return New(Config{Admin: f, API: a, CheckToken: a.check, Elsewhere: func(context.Context) string { return "" }})
}

func do(d http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// TestPages: pages are served with a policy that allows no script but their own, and load nothing from elsewhere.
func TestPages(t *testing.T) {
	d := newDashboard(&fake{}, &api{})
	foreign := regexp.MustCompile(`https?://`)
	unsafe := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|<script>|\son[a-z]+="`)
	err := fs.WalkDir(static, "static", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(path, "static/"), "index.html")
		w := do(d, http.MethodGet, Prefix+name, "")
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'") {
			t.Errorf("%s: status %d, %v", path, w.Code, w.Header())
		}
		for header, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := w.Header().Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", path, header, got, want)
			}
		}
		text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")
		if at := foreign.FindString(text); at != "" {
			t.Errorf("%s loads something from elsewhere: %s", path, at)
		}
		if at := unsafe.FindString(text); at != "" {
			t.Errorf("%s makes HTML or code of strings: %q", path, at)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if w := do(d, http.MethodGet, Prefix+"none", ""); w.Code != http.StatusNotFound {
		t.Errorf("a file that is not there: %d", w.Code)
	}
}

// TestElsewhere: a standby sends browsers to the active coordinator.
func TestElsewhere(t *testing.T) {
	d := New(Config{Admin: &fake{}, API: &api{}, Elsewhere: func(context.Context) string { return "http://10.0.0.1:8558" }})
	if w := do(d, http.MethodGet, Prefix, ""); w.Code != http.StatusTemporaryRedirect || w.Header().Get("Location") != "http://10.0.0.1:8558/ui/" {
		t.Errorf("status %d, %v", w.Code, w.Header())
	}
	if w := do(d, http.MethodGet, Prefix+"app.js", ""); w.Code != http.StatusOK {
		t.Errorf("what belongs to a page that is open already: %d", w.Code)
	}
}

// TestCall: a page calls what the dashboard lets it call, with the token that its session stands for, and
// with nothing that it could say of itself.
func TestCall(t *testing.T) {
	d := newDashboard(&fake{}, &api{token: "secret"})
	call := func(method string, headers ...string) *httptest.ResponseRecorder {
		return do(d, http.MethodPost, Prefix+"api/"+method+"?own=1", `{"a":1}`, append(headers, "Content-Type", "application/json", "X-Own", "x")...)
	}
	if w := call("Members", "Authorization", "Bearer secret"); w.Code != http.StatusUnauthorized {
		t.Errorf("with a token of its own, but without a session: %d %s", w.Code, w.Body)
	}
	w := do(d, http.MethodPost, Prefix+"ticket", "", "Authorization", "Bearer secret")
	var ticket struct{ Ticket string }
	if err := json.Unmarshal(w.Body.Bytes(), &ticket); err != nil || ticket.Ticket == "" {
		t.Fatal(w.Body, err)
	}
	login := func() *httptest.ResponseRecorder {
		return do(d, http.MethodPost, Prefix+"session", `{"ticket":"`+ticket.Ticket+`"}`)
	}
	w = login()
	cookies := w.Result().Cookies()
	if w.Code != http.StatusNoContent || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Path != Prefix || strings.Contains(cookies[0].Value, "secret") {
		t.Fatalf("status %d, %v", w.Code, cookies)
	}
	if w := login(); w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) > 0 {
		t.Errorf("the same ticket again: %d", w.Code)
	}
	session := cookie + "=" + cookies[0].Value
	if w := call("Members", "Cookie", session); w.Body.String() != `POST /twirp/roost.admin.v1.Admin/Members application/json {"a":1} ` {
		t.Errorf("the call is %q", w.Body)
	}
	if w := call("Explain", "Cookie", session); !strings.HasPrefix(w.Body.String(), "POST /twirp/roost.admin.v1.Diagnosis/Explain") {
		t.Errorf("the call is %q", w.Body)
	}
	if w := call("Members", "Cookie", cookie+"=x"); w.Code != http.StatusUnauthorized {
		t.Errorf("with a session that is not there: %d", w.Code)
	}
	for _, method := range []string{"Drain", "Cordon", "Move", "Nothing"} {
		if w := call(method, "Cookie", session); w.Code != http.StatusNotFound {
			t.Errorf("%s can be called: %d", method, w.Code)
		}
	}
	for bad, want := range map[string]int{
		"": http.StatusBadRequest, "{": http.StatusBadRequest, `{"ticket":"x"}`: http.StatusUnauthorized,
		`{"ticket":"` + strings.Repeat("x", 5000) + `"}`: http.StatusBadRequest, // its length is refused before it is looked up
	} {
		if w := do(d, http.MethodPost, Prefix+"session", bad); w.Code != want {
			t.Errorf("%.20q: status %d, want %d", bad, w.Code, want)
		}
	}
	if w := do(d, http.MethodPost, Prefix+"ticket", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("a ticket for nothing: %d", w.Code)
	}
	if w := do(d, http.MethodGet, Prefix+"events", ""); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "roost cluster dashboard") {
		t.Errorf("events without a session: %d %s", w.Code, w.Body)
	}
}

// TestGarbageTickets: who has no management token gets no ticket, and so ends no session of an operator. Who has one
// ends only sessions of its own.
func TestGarbageTickets(t *testing.T) {
	d := newDashboard(&fake{}, &api{token: "secret"})
	login := func(token string) (session string, status int) {
		w := do(d, http.MethodPost, Prefix+"ticket", "", "Authorization", "Bearer "+token)
		var ticket struct{ Ticket string }
		_ = json.Unmarshal(w.Body.Bytes(), &ticket)
		if w := do(d, http.MethodPost, Prefix+"session", `{"ticket":"`+ticket.Ticket+`"}`); w.Code == http.StatusNoContent {
			session = cookie + "=" + w.Result().Cookies()[0].Value
		}
		return session, w.Code
	}
	session, status := login("secret")
	if status != http.StatusOK || session == "" {
		t.Fatal(status)
	}
	for i := range maxSessions + 1 {
		if s, status := login(fmt.Sprint("garbage", i)); s != "" || status != http.StatusUnauthorized {
			t.Fatalf("a ticket for garbage: %d", status)
		}
	}
	if w := do(d, http.MethodPost, Prefix+"api/Members", "{}", "Cookie", session); w.Code != http.StatusOK {
		t.Errorf("the session has ended: %d", w.Code)
	}
	var k kept
	until := time.Unix(1_000_000, 0)
	other := k.put("other", until)
	var own []string
	for range maxSessions + 1 {
		own = append(own, k.put("own", until))
	}
	if _, ok := k.get(other, until); !ok || len(k.order) != 1+maxOfToken || len(k.tokens) != len(k.order) {
		t.Errorf("one token ends the sessions of another one; %d are kept", len(k.order))
	}
	if _, ok := k.get(own[len(own)-1], until); !ok {
		t.Error("the newest session of a token has ended")
	}
}

// TestSecureCookie: a browser that comes by TLS sends the cookie by TLS only.
func TestSecureCookie(t *testing.T) {
	d := newDashboard(&fake{}, &api{})
	for _, secure := range []bool{false, true} {
		var ticket struct{ Ticket string }
		if err := json.Unmarshal(do(d, http.MethodPost, Prefix+"ticket", "", "Authorization", "Bearer secret").Body.Bytes(), &ticket); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, Prefix+"session", strings.NewReader(`{"ticket":"`+ticket.Ticket+`"}`))
		if secure {
			r.TLS = &tls.ConnectionState{}
		}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if cookies := w.Result().Cookies(); len(cookies) != 1 || cookies[0].Secure != secure {
			t.Errorf("with TLS %t: %v", secure, cookies)
		}
	}
}

// TestForbidden: a client that the admin API forbids to read gets no events.
func TestForbidden(t *testing.T) {
	d := New(Config{Admin: &fake{}, Elsewhere: func(context.Context) string { return "" }, API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	})})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // otherwise the events would not end
	defer cancel()
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Prefix+"events", nil).WithContext(ctx))
	if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "event:") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// TestSessionsEnd: tickets and sessions end, and there are not more than some.
func TestSessionsEnd(t *testing.T) {
	var k kept
	now := time.Unix(1_000_000, 0)
	first := k.put("a", now.Add(time.Minute))
	if v, ok := k.get(first, now.Add(time.Minute)); !ok || v != "a" {
		t.Errorf("in time: %q, %v", v, ok)
	}
	if _, ok := k.get(first, now.Add(time.Minute+1)); ok {
		t.Error("it does not end")
	}
	for i := range maxSessions {
		k.put(fmt.Sprint("b", i), now.Add(time.Hour))
	}
	if _, ok := k.get(first, now); ok || len(k.tokens) != maxSessions || len(k.order) != maxSessions {
		t.Errorf("%d are kept", len(k.tokens))
	}
}

// reader reads the events of a page.
type reader struct {
	t    *testing.T
	body *io.PipeReader
	scan *bufio.Scanner
	end  context.CancelFunc
	over chan struct{}
}

// pipe is the answer to a page.
type pipe struct {
	*io.PipeWriter
	header http.Header
}

func (p pipe) Header() http.Header              { return p.header }
func (p pipe) WriteHeader(int)                  {}
func (p pipe) Flush()                           {}
func (p pipe) SetWriteDeadline(time.Time) error { return nil }
func (p pipe) SetReadDeadline(time.Time) error  { return nil }

func look(t *testing.T, d *Dashboard) *reader {
	ctx, end := context.WithCancel(t.Context())
	out, in := io.Pipe()
	r := &reader{t: t, body: out, scan: bufio.NewScanner(out), end: end, over: make(chan struct{})}
	go func() {
		defer close(r.over)
		d.ServeHTTP(pipe{in, http.Header{}}, httptest.NewRequest(http.MethodGet, Prefix+"events", nil).WithContext(ctx))
		in.Close()
	}()
	return r
}

// leave closes the page.
func (r *reader) leave() {
	r.end()
	r.body.Close()
	<-r.over
}

// next reads the next event.
func (r *reader) next() (name, data string) {
	r.t.Helper()
	for r.scan.Scan() {
		switch line := r.scan.Text(); {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			return name, line[len("data: "):]
		}
	}
	r.t.Fatal("the events have ended", r.scan.Err())
	return "", ""
}

// TestEvents: a page is sent the whole map, and then what changes. Nothing is sampled without a viewer.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		d := newDashboard(f, &api{})
		time.Sleep(time.Minute)
		if n := f.samples(); n != 0 {
			t.Errorf("%d samples are taken without a viewer", n)
		}
		f.set(at(0, "region-1", "serving"), at(2, "region-2", "starting"), &adminv1.Shard{Type: "Cart", Index: 3, Reason: "unreadable"})
		r := look(t, d)
		if name, data := r.next(); name != "map" || data != `{"names":["region-1","region-2"],"types":[{"type":"Cart","owners":[0,-1,1,-1],"phases":"s-au"}]}` {
			t.Errorf("first: %s %s", name, data)
		}
		if name, data := r.next(); name != "members" || !strings.Contains(data, `"self":`) || !strings.Contains(data, "coordinator-1") {
			t.Errorf("second: %s %s", name, data)
		}
		f.set(at(0, "region-3", "serving"), at(2, "region-2", "handing-off"))
		if name, data := r.next(); name != "map" || data != `{"names":["region-1","region-2","region-3"],"changes":[[0,0,2,115],[0,2,1,104],[0,3,-1,45]]}` {
			t.Errorf("changed: %s %s", name, data)
		}
		r.next()
		if name, _ := r.next(); name != "members" {
			t.Errorf("nothing has changed, and %s is sent", name)
		}
		f.mu.Lock()
		f.err = twirp.NewError(twirp.Unavailable, "it stops")
		f.mu.Unlock()
		if name, data := r.next(); name != "trouble" || data != `"it stops"` {
			t.Errorf("trouble: %s %s", name, data)
		}
		f.mu.Lock()
		f.err = twirp.NewError(twirp.FailedPrecondition, "it stands by")
		f.mu.Unlock()
		if name, _ := r.next(); name != "standby" {
			t.Errorf("of a standby: %s", name)
		}
		r.leave()
		synctest.Wait()
		n := f.samples()
		time.Sleep(time.Minute)
		if m := f.samples(); m != n || n < 5 {
			t.Errorf("%d samples, and %d after the last viewer", n, m)
		}
	})
}

// TestManyViewers: there are not more pages than some, and they share the samples.
func TestManyViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		d := newDashboard(f, &api{})
		var all []*reader
		for range maxViewers {
			r := look(t, d)
			r.next()
			all = append(all, r)
		}
		if w := do(d, http.MethodGet, Prefix+"events", ""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("one more: %d", w.Code)
		}
		if n := f.samples(); n > 2 {
			t.Errorf("%d samples for %d pages in no time", n, maxViewers)
		}
		for _, r := range all {
			r.leave()
		}
		if r := look(t, d); r != nil {
			r.next()
			r.leave()
		}
	})
}

// TestNamesBegunAnew: names of regions that are long gone do not stay forever.
func TestNamesBegunAnew(t *testing.T) {
	f := &fake{}
	s := sampler{admin: f}
	var before *sample
	for i := range maxNames + 2 {
		f.set(at(0, fmt.Sprint("region-", i), "serving"))
		now := s.take(t.Context(), before)
		if frame := now.since(before); frame == nil || (i > 0 && (frame.Types != nil) != (now.set != before.set)) {
			t.Fatalf("sample %d: %+v", i, frame)
		}
		before = now
	}
	if before.set != 1 || len(before.names) > 2 {
		t.Errorf("%d names, begun anew %d times", len(before.names), before.set)
	}
}

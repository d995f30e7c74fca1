package server

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/router/driver"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/archtest"
)

// FuzzRawPath: a path means what net/url says it means: five parts, unescaped
// one by one. Escaped again they are the same command.
func FuzzRawPath(f *testing.F) {
	for _, path := range []string{
		"/v1/T/a/C", "/v1/T/a%2Fb/C", "/v1/T/%2e%2E/C", "/v1/T//C", "/v1/T/a/b/C", "/v1/T/a/C/", "/v1/T/a", "/v1/%54/a/C", "//v1/T/a/C",
		"/v1/T/%zz/C", "/v1/T/%/C", "/v1/T/a b/C", "/v1/T/%FF/C", "/v1/T/a;b=c&d/C", "v1/T/a/C", "", "/v1/T/a/C?q#f", "/v1/T/x/../y/C", "/v1/T/x%2F..%2Fy/C", "/v1/T/x%2f%2fy/C", "/v1/T/./C", "/v1/T/gr%C3%BCße/C", "/v1/T%2Ea/a/C", "/v1/T/a%2Eb/C", "/v1/T/a/C%2e",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		archtest.Memory(t, archtest.MemoryFactor, len(path), func() { _, _, _ = splitPath(path) })
		checkSplit(t, path)
		u, err := url.ParseRequestURI(path)
		if err != nil || u.Host != "" || !strings.HasPrefix(path, "/") {
			return
		}
		if e, command, ok := splitPath(u.EscapedPath()); ok {
			if joined := "/v1/" + string(e.Type) + "/" + string(e.ID) + "/" + command; joined != u.Path {
				t.Errorf("%q is %q to net/url, and %q here", path, u.Path, joined)
			}
			checkSplit(t, u.EscapedPath())
		}
	})
}

func checkSplit(t *testing.T, path string) {
	e, command, ok := splitPath(path)
	got := []string{"", "v1", string(e.Type), string(e.ID), command}
	want := strings.Split(path, "/")
	good := len(want) == 5 && want[0] == "" && want[1] == "v1"
	for i := 2; good && i < 5; i++ {
		plain, err := url.PathUnescape(want[i])
		good = err == nil && want[i] != "" && (i == 3 || !strings.Contains(strings.ToUpper(want[i]), "%2E"))
		want[i] = plain
	}
	if ok != good || ok && !slices.Equal(got, want) {
		t.Fatalf("%q is read as %q, %v; want %q, %v", path, got, ok, want, good)
	}
	if !ok {
		return
	}
	again := "/v1/" + url.PathEscape(got[2]) + "/" + url.PathEscape(got[3]) + "/" + url.PathEscape(command)
	if e2, command2, ok := splitPath(again); !ok || e2 != e || command2 != command {
		t.Errorf("%q and %q are %v %s and %v %s", path, again, e, command, e2, command2)
	}
}

// FuzzHeaders: whatever the headers say, the request is refused in valid JSON or
// is a command within the limits.
func FuzzHeaders(f *testing.F) {
	f.Add("1500ms", "k-1", "application/json", "true")
	f.Add("", "", "", "")
	f.Add("", "", "application/x-www-form-urlencoded", "false")
	f.Add("", "", "text/plain;charset=UTF-8", "")
	f.Add("9999h", strings.Repeat("k", 129), "Application/JSON; charset=utf-8", "yes")
	f.Add("0.0000000001s", "gr\u00fc\u00dfe", "application/x-protobuf;x=y", "TRUE")
	f.Add("-3s", "a\x00b", "text/xml", "true")
	f.Add("9223372036854775807ns", "\xff", " application/protobuf ;", "")
	f.Add("1h1m1.5s1us\xff\"", "\u2028", "application/json,text/xml", "")
	cfg := DefaultConfig()
	s := &Server{cfg: &cfg, router: newRouter(f, 0)}
	s.types.Store(&types{})
	f.Fuzz(func(t *testing.T, timeout, key, contentType, tell string) {
		header := http.Header{}
		for name, value := range map[string]string{
			"Roost-Timeout": timeout, "Idempotency-Key": key, "Content-Type": contentType, "Roost-Tell": tell,
		} {
			if value != "" {
				header.Set(name, value)
			}
		}
		r := &http.Request{Method: http.MethodPost, URL: new(url.URL), Header: header, Body: http.NoBody}
		n := len(timeout) + len(key) + len(contentType) + len(tell)
		read := func() (*call, *failure) {
			c := &call{Call: driver.Call{Env: sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "i"}, Command: "C"}}, arrived: time.Unix(1e9, 0)}
			left, f := s.decode(r, c)
			if f == nil {
				f = s.check(c, left)
			}
			return c, f
		}
		archtest.Memory(t, archtest.MemoryFactor, n, func() { _, _ = read() })
		c, failed := read()
		if wrong := wrongHeaders(timeout, key, contentType, tell); (failed != nil) != (wrong != nil) {
			t.Fatalf("refused: %+v; want %v", failed, wrong)
		}
		if failed != nil {
			w := httptest.NewRecorder()
			if failed.write(w); w.Code < 400 || w.Code > 499 || !json.Valid(w.Body.Bytes()) {
				t.Errorf("answered %d %s", w.Code, w.Body)
			}
			return
		}
		env := &c.Env
		left := env.Deadline.Sub(c.arrived)
		switch {
		case env.Keyed != (key != "") || env.Keyed && string(env.ID) != key || env.ID == "":
			t.Errorf("key %q came as %q", key, env.ID)
		case env.Tell != (tell == "true"):
			t.Errorf("tell %q came as %v", tell, env.Tell)
		case timeout == "" && !env.Deadline.IsZero(), timeout != "" && (left <= 0 || left > cfg.Core.MaxTimeout):
			t.Errorf("timeout %q came as %v", timeout, left)
		}
	})
}

// wrongHeaders returns what is wrong with headers, independently of decode.
func wrongHeaders(timeout, key, contentType, tell string) error {
	if tell != "" && tell != "true" && tell != "false" {
		return errors.New("tell")
	}
	if timeout != "" {
		if d, err := time.ParseDuration(timeout); err != nil || d <= 0 {
			return errors.New("timeout")
		}
	}
	if key != "" {
		if err := sharding.CheckID("key", key, sharding.MaxCommandIDLen); err != nil {
			return err
		}
	}
	known := []string{"application/json", "application/protobuf", "application/x-protobuf"}
	// Malformed parameters of the media type are tolerated.
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		media, _, _ = mime.ParseMediaType(strings.Split(contentType, ";")[0])
	}
	if contentType != "" && !slices.Contains(known, media) {
		return errors.New("content type")
	}
	if c, given := params["charset"]; given && media == "application/json" && c != "" && !strings.EqualFold(c, "utf-8") {
		return errors.New("charset")
	}
	return nil
}

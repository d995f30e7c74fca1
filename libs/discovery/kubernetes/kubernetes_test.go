package kubernetes_test

import (
	"errors"
	"maps"
	stdslices "slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/discovery/discoverytest"
	"github.com/roost-cluster/roost/libs/discovery/kubernetes"
)

func sorted(m map[string]object) []string { return stdslices.Sorted(maps.Keys(m)) }

func open(t *testing.T, url string) *kubernetes.Backend {
	t.Helper()
	u, err := backendurl.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	b, err := kubernetes.Open(u, "test")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConformance(t *testing.T) {
	discoverytest.Suite{
		Name: "kubernetes",
		With: func(t *testing.T, peers []discovery.Peer) discoverytest.Harness {
			a := newAPIServer(t)
			a.set(slices(t, peers)...)
			set := func(t *testing.T, peers []discovery.Peer) { a.set(slices(t, peers)...) }
			bad := func(s object) func(*testing.T) string {
				return func(*testing.T) string { a.set(s); return nameOf(s) }
			}
			isDown := false
			return discoverytest.Harness{
				Backend:   open(t, a.url("")),
				Second:    func(t *testing.T) discovery.Backend { return open(t, a.url("")) },
				Change:    set,
				Break:     func(*testing.T) { a.do(func() { a.denied["list"] = true }) },
				Garbage:   bad(endpointSlice("strange", "IPv4", map[string]any{}, 7000, "no address")),
				WrongPort: bad(endpointSlice("strange", "IPv4", map[string]any{}, 0, "10.0.0.1")),
				Foreign:   bad(endpointSlice("strange", "IPv4", map[string]any{"roost-cluster": "other"}, 7000, "10.0.0.1")),
				Deny: func(t *testing.T) string {
					a.write(t, "token", "guess")
					return "service prod/roost"
				},
				Allow: func(t *testing.T) { a.write(t, "token", "secret") },
				Down:  func(*testing.T) { a.down(); isDown = true },
				Pause: func(*testing.T) { a.do(func() { a.silent = true }) },
				Up: func(t *testing.T) {
					a.do(func() { a.silent = false })
					if isDown {
						a.up(t)
						isDown = false
					}
				},
			}
		},
	}.Run(t)
}

func want(t *testing.T, url string, wanted ...string) {
	t.Helper()
	got, err := open(t, url).Peers(t.Context())
	var texts []string
	for _, p := range discovery.Normalize(got) {
		texts = append(texts, p.String())
	}
	if err != nil || !stdslices.Equal(texts, wanted) {
		t.Errorf("got %v, %v; want %v", texts, err, wanted)
	}
}

func TestPages(t *testing.T) {
	a := newAPIServer(t)
	a.pages = 2
	var peers []discovery.Peer
	for _, addr := range []string{"a:1", "b:1", "c:1", "d:1", "e:1"} {
		peers = append(peers, discovery.Peer{Addr: addr})
	}
	a.set(slices(t, peers)...)
	want(t, a.url(""), "a:1", "b:1", "c:1", "d:1", "e:1")
	if a.lists != 3 {
		t.Errorf("%d requests for 5 slices by 2", a.lists)
	}
	a.do(func() { a.lists, a.forget = 0, true }) // the pages of the first list expire
	want(t, a.url(""), "a:1", "b:1", "c:1", "d:1", "e:1")
	if a.lists != 5 {
		t.Errorf("%d requests, begun anew after the first page", a.lists)
	}
}

func TestReadinessPortsAndFamilies(t *testing.T) {
	a := newAPIServer(t)
	four := endpointSlice("four", "IPv4", map[string]any{}, 7000, "10.0.0.1", "10.0.0.2", "10.0.0.3")
	four["endpoints"].([]any)[1].(map[string]any)["conditions"].(map[string]any)["ready"] = false
	four["endpoints"].([]any)[2].(map[string]any)["conditions"] = nil // not said
	four["ports"] = append(four["ports"].([]any), map[string]any{"name": "management", "port": 7001})
	six := endpointSlice("six", "IPv6", map[string]any{"roost-role": "region"}, 7000, "2001:db8::1")
	a.set(four, six)
	want(t, a.url("&port=service"), "10.0.0.1:7000", "10.0.0.3:7000", "region@[2001:db8::1]:7000")
	want(t, a.url("&port=management&family=ipv4&role=coordinator"), "coordinator@10.0.0.1:7001", "coordinator@10.0.0.3:7001")
	want(t, a.url("&port=99&ready=any&family=ipv4"), "10.0.0.1:99", "10.0.0.2:99", "10.0.0.3:99")
	want(t, a.url("&port=service&family=ipv6"), "region@[2001:db8::1]:7000")
	for query, words := range map[string][]string{
		"": {"four", `"service", "management"`, "parameter port"}, "&port=http": {"four", `no port "http"`},
	} {
		_, err := open(t, a.url(query)).Peers(t.Context())
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%q gives %v, which does not say %q", query, err, w)
			}
		}
	}
}

// A version that is no longer kept means: list again.
func TestExpiredVersions(t *testing.T) {
	for _, inStream := range []bool{false, true} {
		a := newAPIServer(t)
		a.inStream = inStream
		a.set(slices(t, []discovery.Peer{{Addr: "a:1"}})...)
		_, changed, err := open(t, a.url("")).Follow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a.compact()
		if err := changed(t.Context()); err != nil {
			t.Errorf("in the stream %v: %v", inStream, err)
		}
	}
}

// A client that may list but not watch polls at intervals, and gets the reason.
func TestWatchForbidden(t *testing.T) {
	a := newAPIServer(t)
	a.do(func() { a.denied["watch"] = true })
	_, changed, err := open(t, a.url("")).Follow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := changed(t.Context()); !errors.Is(err, discovery.ErrDenied) || !strings.Contains(err.Error(), "cannot watch") {
		t.Errorf("a forbidden watch gives %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, url := range []string{
		"kubernetes://prod/x", "kubernetes:///x?api=http://a:1", "kubernetes://prod?api=http://a:1", "kubernetes://prod/x,?api=http://a:1",
		"kubernetes://prod/x?api=a:1", "kubernetes://prod/x?api=http://a:1&ca=/nonexistent", "kubernetes://prod/X?api=http://a:1",
		"kubernetes://prod/x?api=http://a:1&ready=no", "kubernetes://prod/x?api=http://a:1&colour=red",
	} {
		u, err := backendurl.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kubernetes.Open(u, ""); !errors.Is(err, discovery.ErrConfig) {
			t.Errorf("%s gives %v", url, err)
		}
	}
}

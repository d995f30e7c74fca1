package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/node/telemetry/histogram"
	_ "github.com/roost-cluster/roost/libs/node/telemetry/otlphttp"
	"github.com/roost-cluster/roost/libs/setting"
)

// serviceConfig is the configuration of a service with two keys of its own.
type serviceConfig struct {
	config.Config
	Region struct {
		PassivateAfter time.Duration `key:"passivate_after"`
		Mailbox        int           `key:"mailbox"`
	} `key:"region"`
}

// Validate implements [config.Configured].
func (c *serviceConfig) Validate() error { return setting.Ranges(c) }

func newService() *serviceConfig { return &serviceConfig{Config: config.Default("127.0.0.1:0")} }

func testConfig() *serviceConfig {
	c := newService()
	c.Management.Listen = "127.0.0.1:0"
	c.LogLevel = slog.LevelError + 1
	return c
}

// fileOf returns a file with the content.
func fileOf(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// get fetches a URL and returns status and body.
func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestNode(t *testing.T) {
	config := testConfig()
	config.Name = "r1"
	config.AddressFile = filepath.Join(t.TempDir(), "addresses")
	config.MaxBody = 10
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	ready := make(chan *Node, 1)
	draining, drained := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, "region", config, func(n *Node) error {
			n.Ready("table", func(context.Context) error { return nil })
			n.Handle("POST /take", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err != nil {
					w.WriteHeader(http.StatusRequestEntityTooLarge)
				}
			}))
			n.Stage(Stage{
				Name: "last",
				Run: func(ctx context.Context) error {
					ready <- n
					<-ctx.Done()
					return nil
				},
				Stop: func(context.Context) error { close(draining); <-drained; return nil },
			})
			return nil
		})
	}()
	n := <-ready
	management := "http://" + n.ManagementAddr()
	client := n.Peers().Of(rpc.Members).Client()

	waitFor(t, func() bool { status, _ := get(t, client, management+"/readyz"); return status == 200 })
	if _, body := get(t, client, management+"/readyz?verbose"); body != "[+] node\n[+] table\nok\n" {
		t.Errorf("readyz says %q", body)
	}
	if status, body := get(t, client, management+"/livez"); status != 200 || body != "ok\n" {
		t.Errorf("livez says %d %q", status, body)
	}
	if _, body := get(t, client, management+"/version"); !strings.Contains(body, `"service":"roost-region"`) {
		t.Errorf("version says %q", body)
	}
	if status, _ := get(t, client, management+"/debug/pprof/"); status != 404 {
		t.Errorf("pprof is open: %d", status)
	}
	var addresses Addresses
	content, err := os.ReadFile(config.AddressFile)
	if err != nil || json.Unmarshal(content, &addresses) != nil || addresses.Listen != n.ServiceAddr() ||
		addresses.Management != n.ManagementAddr() || addresses.Name != "r1" || addresses.PID != os.Getpid() {
		t.Errorf("address file %s, %v", content, err)
	}
	for body, want := range map[string]int{"short": 200, "longer than ten": 413} {
		response, err := client.Post(n.Peers().Of(rpc.Members).URL(n.Advertise())+"/take", "", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("body %q: %d, want %d", body, response.StatusCode, want)
		}
		if response.Close && want == http.StatusOK {
			t.Errorf("body %q: the answer closes its connection", body)
		}
	}

	cancel()
	<-draining
	if status, body := get(t, client, management+"/readyz"); status != 503 || !strings.Contains(body, "[-] node: stopping") {
		t.Errorf("while stopping readyz says %d %q", status, body)
	}
	if response, err := client.Post("http://"+n.ServiceAddr()+"/take", "", strings.NewReader("x")); err != nil || response.StatusCode != 200 {
		t.Errorf("while stopping the service listener answers %v", err)
	} else if !response.Close {
		t.Error("while stopping an answer keeps its connection")
	}
	close(drained)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", n.ServiceAddr()); err == nil {
		conn.Close()
		t.Error("the service listener is still open")
	}
}

// waitFor polls a condition that no channel signals, until the test ends.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("out of time")
		}
	}
}

func TestMetrics(t *testing.T) {
	seen := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := Run(ctx, "region", testConfig(), func(n *Node) error {
		duration, err := n.MeterProvider().Meter("test").Float64Histogram("roost.entity.command.duration", metric.WithUnit("s"))
		if err != nil {
			return err
		}
		duration.Record(ctx, 0.0007, metric.WithAttributes(attribute.String("entity.type", "Airport")))
		n.Histograms().New(histogram.Desc{Scope: "test", Name: "roost.often", Unit: "s", Bounds: histogram.Seconds}).With().Record(0.0007)
		n.Stage(Stage{Name: "probe", Start: func(context.Context) error {
			_, body := get(t, http.DefaultClient, "http://"+n.ManagementAddr()+"/metrics")
			seen <- body
			cancel()
			return nil
		}})
		// A caller's trace continues even if no spans are exported.
		parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
		_, span := n.TracerProvider().Tracer("test").Start(trace.ContextWithRemoteSpanContext(ctx, parent), "x")
		if span.SpanContext().TraceID() != parent.TraceID() {
			t.Error("the caller's trace is lost")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	body := <-seen
	for _, want := range []string{
		`roost_entity_command_duration_seconds_bucket{entity_type="Airport",roost_cluster="dev",le="0.001"} 1`,
		`roost_entity_command_duration_seconds_bucket{entity_type="Airport",roost_cluster="dev",le="0.0005"} 0`,
		`roost_often_seconds_bucket{roost_cluster="dev",le="0.001"} 1`,
		"roost_build_info{", "go_goroutines", "service_instance_id=",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s:\n%s", want, body)
		}
	}
}

// TestPushedMetrics: pushed metrics include the histograms, and a node that stops pushes
// the last values.
func TestPushedMetrics(t *testing.T) {
	var mu sync.Mutex
	var pushed []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		pushed = append(pushed, body...)
	}))
	defer collector.Close()
	t.Setenv("OTEL_METRICS_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := Run(ctx, "region", testConfig(), func(n *Node) error {
		n.Histograms().New(histogram.Desc{Scope: "test", Name: "roost.often", Unit: "s", Bounds: histogram.Seconds}).With().Record(0.0007)
		cancel()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, name := range []string{"roost.often", "roost.build.info"} {
		if !bytes.Contains(pushed, []byte(name)) {
			t.Errorf("%s was not pushed", name)
		}
	}
}

func TestTracesArePushed(t *testing.T) {
	paths := make(chan string, 8)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "depart") && strings.Contains(string(body), "roost-region") {
			paths <- r.URL.Path
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.URL+"/v1/traces")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := Run(ctx, "region", testConfig(), func(n *Node) error {
		_, span := n.TracerProvider().Tracer("test").Start(ctx, "depart")
		span.End()
		cancel()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// A node that stops flushes its spans, so they have arrived.
	select {
	case path := <-paths:
		if path != "/v1/traces" {
			t.Errorf("pushed to %s", path)
		}
	default:
		t.Error("nothing was pushed")
	}
}

func TestRunErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	config := testConfig()
	config.Management.Listen = taken.Addr().String()
	if err := Run(t.Context(), "region", config, nil); err == nil || !strings.Contains(err.Error(), "management.listen") {
		t.Errorf("address in use: %v", err)
	}
	closed := false
	err = Run(t.Context(), "region", testConfig(), func(n *Node) error {
		n.Stage(Stage{Name: "file", Stop: func(context.Context) error { closed = true; return nil }})
		return errors.New("no journal")
	})
	if err == nil || !strings.Contains(err.Error(), "no journal") || !closed {
		t.Errorf("failed setup: %v, closed %v", err, closed)
	}
	if err := Run(t.Context(), "region", testConfig(), func(n *Node) error { panic("ouch") }); err == nil {
		t.Error("a panic in setup passes")
	}
	config = testConfig()
	config.AddressFile = "/nonexistent/x"
	if err := Run(t.Context(), "region", config, func(*Node) error { return nil }); err == nil {
		t.Error("an address file that cannot be written passes")
	}
}

// TestFirstGlobal: the address that a host without a default route advertises.
func TestFirstGlobal(t *testing.T) {
	for want, nets := range map[string]string{
		"127.0.0.1":  "",
		"10.1.0.7":   "127.0.0.1/8 fe80::1/64 10.1.0.7/24 10.2.0.7/24",
		"10.2.0.9":   "::1/128 2001:db8::9/64 10.2.0.9/24",
		"2001:db8::": "127.0.0.1/8 169.254.3.4/16 2001:db8::/64",
	} {
		var all []net.Addr
		for _, n := range strings.Fields(nets) {
			ip, network, err := net.ParseCIDR(n)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, &net.IPNet{IP: ip, Mask: network.Mask})
		}
		if got := firstGlobal(all); got != want {
			t.Errorf("of %q: %s, want %s", nets, got, want)
		}
	}
}

func TestManagementAt(t *testing.T) {
	for _, c := range [][3]string{
		{"r1.example:80", "[::]:8558", "r1.example:8558"},
		{"10.0.0.7:80", "0.0.0.0:8558", "10.0.0.7:8558"},
		{"[2001:db8::1]:80", "[::]:8558", "[2001:db8::1]:8558"},
		{"10.0.0.7:80", "127.0.0.1:8558", "127.0.0.1:8558"},
	} {
		if got := managementAt(c[0], c[1]); got != c[2] {
			t.Errorf("peers use %s, the management listener is at %s: operators use %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestAdvertised(t *testing.T) {
	bound := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
	for configured, want := range map[string]string{
		"": "127.0.0.1:4711", "r1.example": "r1.example:4711", "r1.example:80": "r1.example:80", "r1.example:0": "r1.example:4711", "::1": "[::1]:4711",
	} {
		if got, err := advertised(configured, bound); err != nil || got != want {
			t.Errorf("advertised(%q) = %q, %v; want %q", configured, got, err, want)
		}
	}
	everywhere, err := advertised("", &net.TCPAddr{IP: net.IPv6unspecified, Port: 4711})
	host, port, splitErr := net.SplitHostPort(everywhere)
	if err != nil || splitErr != nil || port != "4711" || net.ParseIP(host) == nil || net.ParseIP(host).IsUnspecified() {
		t.Errorf("bound everywhere, advertised %q", everywhere)
	}
}

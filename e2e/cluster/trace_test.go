package cluster

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

// collector receives spans as OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans map[string][]span // by trace id
}

type span struct {
	service, name, id, parent string
	start, end                uint64
}

func newCollector(t *testing.T) *collector {
	c := &collector{spans: map[string][]span{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" {
			return // metrics arrive as well
		}
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Errorf("collector: %v", err)
				return
			}
			body = z
		}
		raw, err := io.ReadAll(body)
		var req collectorpb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(raw, &req)
		}
		if err != nil {
			t.Errorf("collector: %v", err)
			return
		}
		c.take(&req)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) take(req *collectorpb.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range req.ResourceSpans {
		service := ""
		for _, a := range rs.Resource.GetAttributes() {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.add(service, s)
			}
		}
	}
}

func (c *collector) add(service string, s *tracepb.Span) {
	id := hex.EncodeToString(s.TraceId)
	c.spans[id] = append(c.spans[id], span{
		service: service, name: s.Name, id: hex.EncodeToString(s.SpanId), parent: hex.EncodeToString(s.ParentSpanId),
		start: s.StartTimeUnixNano, end: s.EndTimeUnixNano,
	})
}

func (c *collector) trace(id string) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans[id])
}

// TestOneTraceThroughAllProcesses: a traced HTTP request, or call of the Go client, makes one trace, from the gateway through link and mailbox to the handler and the journal.
func TestOneTraceThroughAllProcesses(t *testing.T) {
	col := newCollector(t)
	c := start(t, launcher.Options{Coordinators: 1, Regions: 1, Gateways: 1, Env: []string{
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + col.URL, "OTEL_BSP_SCHEDULE_DELAY=100",
	}})
	const id = "0af7651916cd43dd8448eb211c80319c"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Gateways()[0]+"/v1/Counter/c1/Add", bytes.NewReader([]byte(`{"delta":5}`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("traceparent", "00-"+id+"-b7ad6b7169203331-01")
	req.Header.Set("Idempotency-Key", "k1")
	req.Header.Set("Roost-Timeout", "30s")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("HTTP %s: %s", res.Status, body)
	}
	timing := res.Header.Get("Server-Timing")
	for _, part := range []string{"mailbox;dur=", "handler;dur=", "journal;dur=", "total;dur="} {
		if !strings.Contains(timing, part) {
			t.Errorf("Server-Timing %q lacks %s", timing, part)
		}
	}

	wantTrace(t, col, id, "b7ad6b7169203331")

	// The Go client continues with the trace of its caller.
	const byClient, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	caller, err := client.New(c.Gateways(), client.Trace(func(context.Context) string { return "00-" + byClient + "-" + span + "-01" }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := caller.Call(ctx, entity.Call{Type: "Counter", ID: "c2", Command: "Add", Payload: []byte(`{"delta":5}`)}); err != nil {
		t.Fatal(err)
	}
	wantTrace(t, col, byClient, span)
}

// wantTrace waits until a trace, which began with a span of the client, has the spans of all
// processes.
func wantTrace(t *testing.T, col *collector, id, client string) {
	t.Helper()
	want := []string{"roost-gateway", "roost-region Counter/Add", "roost-region mailbox", "roost-region handler", "roost-region journal.append"}
	var missing []string
	eventually(t, 20*time.Second, func() error {
		spans := col.trace(id)
		missing = nil
		for _, w := range want {
			service, name, _ := strings.Cut(w, " ")
			if !slices.ContainsFunc(spans, func(s span) bool { return s.service == service && (name == "" || s.name == name) }) {
				missing = append(missing, w)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("the trace lacks %v; it has %v", missing, spans)
		}
		return connected(spans, client)
	})
}

// connected checks that every span's parent is in the trace, or the client's.
func connected(spans []span, client string) error {
	ids := map[string]bool{client: true}
	for _, s := range spans {
		ids[s.id] = true
	}
	for _, s := range spans {
		if !ids[s.parent] {
			return fmt.Errorf("span %s of %s has the unknown parent %s", s.name, s.service, s.parent)
		}
		if s.end < s.start {
			return fmt.Errorf("span %s of %s ends before it starts", s.name, s.service)
		}
	}
	return nil
}

// eventually polls until check succeeds.
func eventually(t *testing.T, within time.Duration, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %v", within, err)
		}
	}
}

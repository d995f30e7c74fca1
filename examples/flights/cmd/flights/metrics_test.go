package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/cli/cluster"
)

const metricsText = `# TYPE roost_gateway_retries_total counter
roost_gateway_retries_total 79
roost_gateway_retries_total_other 5
roost_gateway_retries_total{a="x y",b="}"} 1.2e+02
roost_gateway_retries_total
roost_gateway_retries_total{a="b"} nonsense
roost_gateway_hops_sum 45525
`

func TestReadCounter(t *testing.T) {
	if n := readCounter(strings.NewReader(metricsText), resentCounter); n != 199 {
		t.Errorf("%d, want 199", n)
	}
}

func TestResentIsTheSumOverGateways(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = w.Write([]byte(metricsText))
		}
	}))
	address := strings.TrimPrefix(server.URL, "http://")
	r := newResent([]cluster.Process{
		{Role: cluster.Gateway, Management: address}, {Role: cluster.Region, Management: address}, {Role: cluster.Gateway, Management: address},
	})
	r.look(context.Background())
	server.Close()
	r.look(context.Background()) // no answer: the last count is kept
	if n := r.count.Load(); n != 398 {
		t.Errorf("%d, want 398", n)
	}
}

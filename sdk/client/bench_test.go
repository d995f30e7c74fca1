package client_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

// BenchmarkCall measures a call to a server that answers at once. Its allocations include both sides.
func BenchmarkCall(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Roost-Outcome", "executed")
		_, _ = w.Write([]byte("{}\n"))
	}))
	defer server.Close()
	c, err := client.New([]string{server.URL})
	if err != nil {
		b.Fatal(err)
	}
	call := entity.Call{Type: "Counter", ID: "c1", Command: "Add", Payload: []byte(`{"delta":5}`)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Call(b.Context(), call); err != nil {
			b.Fatal(err)
		}
	}
}

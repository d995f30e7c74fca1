package load

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/roost-cluster/roost/e2e/cluster/history"
)

// TestTheTransportRepeats: net/http repeats a request with a key when a connection that it reused closes. The refusal
// of the second one, or no connection for it, leaves the first one in doubt.
func TestTheTransportRepeats(t *testing.T) {
	for _, stops := range []bool{false, true} {
		var requests atomic.Int64
		var server *httptest.Server
		server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			switch requests.Add(1) {
			case 1:
			case 2: // executed, and the connection closes before the answer
				if stops {
					_ = server.Listener.Close()
				}
				panic(http.ErrAbortHandler)
			default:
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = fmt.Fprint(w, `{"code":"unavailable","msg":"no","meta":{"outcome":"not_applied"}}`)
			}
		}))
		l := New([]string{server.URL}, 1)
		if a := l.Post(t.Context(), 0, "/v1/List/a/Add", "k1", 1); a.Outcome != history.Executed {
			t.Fatalf("%+v", a)
		}
		if a := l.Post(t.Context(), 0, "/v1/List/a/Add", "k2", 2); a.Outcome != history.Unknown {
			t.Errorf("stops=%v: %+v, want unknown after %d requests", stops, a, requests.Load())
		}
		if a := l.Post(t.Context(), 0, "/v1/List/a/Add", "k3", 3); a.Outcome != history.NotApplied {
			t.Errorf("stops=%v: %+v, want not applied: nothing was sent, or it was refused", stops, a)
		}
		server.Close()
	}
}

package dev

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/roost-cluster/roost/cli/cluster"
)

// The commands that roost dev suggests work, or name the missing part.
func TestHint(t *testing.T) {
	for _, test := range []struct {
		p    proof
		want string
	}{
		{proof{counts: true}, `curl --json '{"delta":5}' localhost:8080/v1/Counter/c1/Add`},
		{proof{typ: "Cart", command: "Show", readOnly: true, answers: true}, `curl localhost:8080/v1/Cart/example/Show`},
		{proof{typ: "Cart", command: "Add"}, `curl --json 'INPUT' localhost:8080/v1/Cart/example/Add   INPUT: what Add takes, as JSON`},
		{proof{typ: "Cart", command: "Add", asks: true}, `curl -H "Authorization: Bearer $ROOST_TOKEN" --json 'INPUT' localhost:8080/v1/Cart/example/Add   INPUT: what Add takes, as JSON`},
	} {
		if got := test.p.curl("http://localhost:8080"); got != test.want {
			t.Errorf("%+v: %s, want %s", test.p, got, test.want)
		}
	}
}

// An entity that answers proves that commands come through, whatever it answers: a
// handler that fails is its author's matter.
func TestProof(t *testing.T) {
	for _, test := range []struct {
		status  int
		body    string
		proves  bool
		answers bool
		asks    bool
	}{
		{200, `{}`, true, true, false},
		{412, `{"code":"failed_precondition","msg":"no such cart","meta":{"outcome":"executed"}}`, true, false, false},
		{400, `{"code":"invalid_argument","msg":"the input of Show","meta":{"outcome":"not_applied","error":"ROOST-1001"}}`, true, false, false},
		{500, `{"code":"internal","msg":"Show failed and was undone","meta":{"outcome":"not_applied","error":"ROOST-1008"}}`, true, false, false},
		{503, `{"code":"unavailable","msg":"no home yet","meta":{"outcome":"not_applied","error":"ROOST-1005"}}`, false, false, false},
		{500, `{"code":"internal","msg":"lost","meta":{"outcome":"unknown","error":"ROOST-1102"}}`, false, false, false},
		{502, `<html>`, false, false, false},
		{401, `{"code":"unauthenticated","msg":"not authenticated","meta":{"outcome":"not_applied","error":"ROOST-1016"}}`, true, false, true},
		{403, `{"code":"permission_denied","msg":"not allowed","meta":{"outcome":"not_applied","error":"ROOST-1017"}}`, true, false, true},
		{403, `{"code":"permission_denied","msg":"this listener is not x","meta":{"outcome":"not_applied","error":"ROOST-1013"}}`, false, false, false},
	} {
		gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(test.body))
		}))
		p := proof{http: http.DefaultClient, typ: "Cart", command: "Show", readOnly: true}
		if err := p.send(t.Context(), gateway.URL); (err == nil) != test.proves || p.answers != test.answers || p.asks != test.asks {
			t.Errorf("%d %s: %v, answers %t, asks %t", test.status, test.body, err, p.answers, p.asks)
		}
		gateway.Close()
	}
}

// TestWarningsBegin: a warning is printed when it begins, and again when it comes back.
func TestWarningsBegin(t *testing.T) {
	w := warnings{}
	one, two := cluster.Warning{Process: "c-1", Check: "journal", Text: "for 1 s"}, cluster.Warning{Process: "c-2", Check: "journal", Text: "for 1 s"}
	later := cluster.Warning{Process: "c-1", Check: "journal", Text: "for 2 s"}
	for i, step := range []struct{ list, want []cluster.Warning }{
		{[]cluster.Warning{one}, []cluster.Warning{one}}, {[]cluster.Warning{later, two}, []cluster.Warning{two}}, {nil, nil}, {[]cluster.Warning{one}, []cluster.Warning{one}},
	} {
		if got := w.begun(step.list); fmt.Sprint(got) != fmt.Sprint(step.want) {
			t.Errorf("step %d: %v has begun, want %v", i, got, step.want)
		}
	}
}

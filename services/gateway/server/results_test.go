package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
)

// largestWrite records how much is written at a time.
type largestWrite struct {
	*httptest.ResponseRecorder
	n int
}

func (w *largestWrite) Write(b []byte) (int, error) {
	w.n = max(w.n, len(b))
	return w.ResponseRecorder.Write(b)
}

// TestResults: the answer to an AskMany is written one result at a time, and reads
// as if it had been encoded at once.
func TestResults(t *testing.T) {
	for _, count := range []int{0, 1, 50} {
		want := &gatewayv1.AskManyResponse{}
		for i := range count {
			one := &gatewayv1.AskResult{Payload: []byte(strings.Repeat("x", 10_000))}
			if i%10 == 1 {
				one = refusal("not_found", "no such thing").result()
			}
			want.Results = append(want.Results, one)
		}
		for _, media := range []string{"application/json", "application/protobuf"} {
			w := &largestWrite{ResponseRecorder: httptest.NewRecorder()}
			r := &results{ResponseWriter: w, list: slices.Clone(want.Results)}
			if r.list == nil {
				r.list = []*gatewayv1.AskResult{}
			}
			r.Header().Set("Content-Type", media)
			r.Header().Set("Content-Length", "14")
			r.WriteHeader(http.StatusOK)
			if _, err := r.Write([]byte(`{"results":[]}`)); err != nil {
				t.Error(err)
			}
			got := &gatewayv1.AskManyResponse{}
			var err error
			if media == "application/json" {
				err = protojson.Unmarshal(w.Body.Bytes(), got)
			} else {
				err = proto.Unmarshal(w.Body.Bytes(), got)
			}
			if err != nil || !proto.Equal(got, want) || w.Header().Get("Content-Length") != "" {
				t.Errorf("%d results as %s: %v, %d came", count, media, err, len(got.Results))
			}
			if w.n > 15_000 {
				t.Errorf("%s: %d bytes are written at a time", media, w.n)
			}
		}
	}
}

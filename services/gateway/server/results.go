package server

import (
	"net/http"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
)

// results writes the answer to an AskMany one result after the other, in place of
// the empty one that Twirp has made: encoded as a whole, it would take several times
// the memory that its replies count. Everything else passes unchanged.
type results struct {
	http.ResponseWriter
	list []*gatewayv1.AskResult // nil: not an answer to an AskMany
	told bool                   // written, instead of Twirp's answer
}

// resultsKey is the context key of a request's results.
type resultsKey struct{}

// Unwrap is for http.ResponseController.
func (r *results) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *results) WriteHeader(status int) {
	if r.list == nil || status != http.StatusOK || r.told {
		r.ResponseWriter.WriteHeader(status)
		return
	}
	r.told = true
	r.Header().Del("Content-Length") // of the empty one
	r.ResponseWriter.WriteHeader(status)
	if r.Header().Get("Content-Type") == "application/json" {
		r.json()
	} else {
		r.protobuf()
	}
}

func (r *results) Write(b []byte) (int, error) {
	if r.told {
		return len(b), nil
	}
	return r.ResponseWriter.Write(b)
}

// json writes what Twirp would: names as in the .proto files, empty fields too.
func (r *results) json() {
	options := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}
	between := `{"results":[`
	for i, one := range r.list {
		raw, err := options.Marshal(one)
		if err != nil {
			panic(http.ErrAbortHandler) // text that is not UTF-8: the client must not take it for whole
		}
		if _, err = r.ResponseWriter.Write(append([]byte(between), raw...)); err != nil {
			return // the client has gone
		}
		r.list[i], between = nil, ","
	}
	if len(r.list) == 0 {
		_, _ = r.ResponseWriter.Write([]byte(between))
	}
	_, _ = r.ResponseWriter.Write([]byte("]}"))
}

// protobuf writes a message for each: one after the other they are the message with
// all of them.
func (r *results) protobuf() {
	for i, one := range r.list {
		raw, err := proto.Marshal(&gatewayv1.AskManyResponse{Results: []*gatewayv1.AskResult{one}})
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if _, err = r.ResponseWriter.Write(raw); err != nil {
			return
		}
		r.list[i] = nil
	}
}

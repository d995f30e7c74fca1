package baseline

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
)

// EchoPath answers POST of [Question] with [Answer], by net/http and
// encoding/json alone.
const EchoPath = "/echo"

// Question is 64 bytes of JSON if Data has 53.
type Question struct {
	Data string `json:"data"`
}

// Answer is 16 bytes of JSON if N has ten digits.
type Answer struct {
	N int64 `json:"n"`
}

// TenDigits is the first number that makes an [Answer] of 16 bytes.
const TenDigits = 1_000_000_000

func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+EchoPath, func(w http.ResponseWriter, r *http.Request) {
		var q Question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		raw, err := json.Marshal(Answer{TenDigits + int64(len(q.Data))})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(raw)
	})
	mux.Handle(gatewayv1.EntitiesPathPrefix, gatewayv1.NewEntitiesServer(echo{}))
	return mux
}

// echo is the gateway's Twirp service without a cluster.
type echo struct{}

// Ask answers a message of 64 bytes by one of 16.
func (echo) Ask(_ context.Context, req *gatewayv1.AskRequest) (*gatewayv1.AskResponse, error) {
	var in wrapperspb.BytesValue
	if err := proto.Unmarshal(req.Payload, &in); err != nil {
		return nil, err
	}
	out := wrapperspb.BytesValue{Value: make([]byte, 14)}
	binary.BigEndian.PutUint64(out.Value, uint64(len(in.Value)))
	raw, err := proto.Marshal(&out)
	return &gatewayv1.AskResponse{Payload: raw, Encoding: gatewayv1.Encoding_ENCODING_PROTOBUF}, err
}

// Tell does nothing.
func (echo) Tell(context.Context, *gatewayv1.AskRequest) (*gatewayv1.TellResponse, error) {
	return &gatewayv1.TellResponse{}, nil
}

// AskMany does nothing.
func (echo) AskMany(context.Context, *gatewayv1.AskManyRequest) (*gatewayv1.AskManyResponse, error) {
	return &gatewayv1.AskManyResponse{}, nil
}

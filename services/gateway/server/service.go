package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roost-cluster/roost/libs/sharding"
	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
)

// service is the generic API, for programs.
type service struct{ s *Server }

// before checks the sender and headers of a request before next reads its body, and gives it a span.
func (v service) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "roost.gateway.v1.Entities"
		switch method := strings.TrimPrefix(r.URL.Path, gatewayv1.EntitiesPathPrefix); method {
		case "Ask", "Tell", "AskMany":
			name += "/" + method
		}
		for _, header := range plainHeaders {
			if len(r.Header[header]) > 0 {
				v.s.fail(w, refusal(sharding.InvalidArgument, header+" is a header of POST "+route+"; here the message has a field for it"))
				return
			}
		}
		if f := strangeHeader(r); f != nil {
			v.s.fail(w, f)
			return
		}
		var env sharding.Envelope
		if f := v.s.authenticate(r, &env); f != nil {
			v.s.fail(w, f)
			return
		}
		ctx, span := v.s.startServer(r, name)
		if span != nil {
			defer span.End()
		}
		// Replies count until the whole answer is written.
		held := new(int)
		defer func() { v.s.router.Delivered(*held) }()
		ctx = context.WithValue(ctx, senderKey{}, sender{env.Principal, v.s.rates.counted(env.Principal, r), r.RemoteAddr})
		r = r.WithContext(context.WithValue(ctx, heldKey{}, held))
		if v.s.stopping.Load() {
			w.Header()["Connection"] = closing
		}
		many := &results{ResponseWriter: w}
		r = r.WithContext(context.WithValue(r.Context(), resultsKey{}, many))
		next.ServeHTTP(many, r)
	})
}

// plainHeaders are the headers of the plain API. A client that sends one with a Twirp
// message expects an effect, so they must not be ignored.
var plainHeaders = []string{"Idempotency-Key", "Roost-Tell", "Roost-Timeout"}

// itemsField is the list that gateway.max_items bounds. It is counted before anything is decoded.
const itemsField protoreflect.FullName = "roost.gateway.v1.AskManyRequest.items"

// senderKey is the context key of a request's sender.
type senderKey struct{}

// sender identifies the sender of a request.
type sender struct {
	principal string
	counted   string // whose commands are counted together, see [rates]
	address   string // as http.Request.RemoteAddr
}

// heldKey is the context key of the memory that a request's replies count.
type heldKey struct{}

// Ask sends a command and waits for its reply.
func (v service) Ask(ctx context.Context, req *gatewayv1.AskRequest) (*gatewayv1.AskResponse, error) {
	reply, err := v.one(ctx, req, false)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.AskResponse{Payload: reply.Payload, Encoding: toEncoding(reply.Encoding)}, nil
}

// Tell sends a command and waits until it is accepted, or durable if it has a
// key.
func (v service) Tell(ctx context.Context, req *gatewayv1.AskRequest) (*gatewayv1.TellResponse, error) {
	if _, err := v.one(ctx, req, true); err != nil {
		return nil, err
	}
	return &gatewayv1.TellResponse{}, nil
}

func (v service) one(ctx context.Context, req *gatewayv1.AskRequest, tell bool) (sharding.Reply, error) {
	c := v.s.newCall(fromAsk(req), time.Now())
	c.Env.Tell = tell
	if f := v.begin(ctx, c, req); f != nil {
		c.release()
		return sharding.Reply{}, refuse(ctx, f)
	}
	v.s.submit(c)
	reply, f := v.finish(ctx, c)
	if f != nil {
		return sharding.Reply{}, refuse(ctx, f)
	}
	return reply, nil
}

// begin checks a command and gives it the trace of the request.
func (v service) begin(ctx context.Context, c *call, req *gatewayv1.AskRequest) *failure {
	timeout := time.Duration(req.GetTimeoutMs()) * time.Millisecond
	from, _ := ctx.Value(senderKey{}).(sender)
	c.Env.Principal, c.from = from.principal, from.address
	f := v.s.tooFast(from.counted, c.arrived)
	if f == nil {
		f = v.s.shed(c, timeout)
	}
	if f == nil {
		f = v.s.check(c, timeout)
	}
	if f != nil {
		v.s.observe(c, f, 0)
		return f
	}
	c.Env.Trace = traceparent(ctx)
	return nil
}

// finish waits for a submitted command and releases it.
func (v service) finish(ctx context.Context, c *call) (sharding.Reply, *failure) {
	if !v.s.wait(ctx, c) {
		f := v.s.clientGone(&c.Env)
		v.s.observe(c, f, 0)
		return sharding.Reply{}, f
	}
	f, reply := failureOf(&c.finish), c.finish.Reply
	v.s.observe(c, f, c.finish.Attempts)
	*ctx.Value(heldKey{}).(*int) += c.finish.Held
	c.release()
	return reply, f
}

// AskMany sends commands side by side; their results are written by [results]. Those for the same entity enter the
// core in their order, and so take effect in it.
func (v service) AskMany(ctx context.Context, req *gatewayv1.AskManyRequest) (*gatewayv1.AskManyResponse, error) {
	out := make([]*gatewayv1.AskResult, len(req.Items))
	now := time.Now()
	sent := make([]*call, 0, len(req.Items))
	at := make([]int, 0, len(req.Items)) // item of each
	for i, r := range req.Items {
		c := v.s.newCall(fromAsk(r), now)
		if f := v.begin(ctx, c, r); f != nil {
			out[i] = f.result()
			c.release()
			continue
		}
		sent, at = append(sent, c), append(at, i)
	}
	v.s.submit(sent...)
	for n, c := range sent {
		reply, f := v.finish(ctx, c)
		if f != nil {
			out[at[n]] = f.result()
			continue
		}
		out[at[n]] = &gatewayv1.AskResult{Payload: reply.Payload, Encoding: toEncoding(reply.Encoding)}
	}
	ctx.Value(resultsKey{}).(*results).list = out
	return &gatewayv1.AskManyResponse{}, nil
}

// refuse returns a failure as the error of a whole request.
func refuse(ctx context.Context, f *failure) error {
	if s := f.retryAfterSeconds(); s != "" {
		_ = twirp.SetHTTPResponseHeader(ctx, "Retry-After", s) // fails only outside a request
	}
	return f.twirp()
}

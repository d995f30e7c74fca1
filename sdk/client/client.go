// Package client calls entities through gateways.
//
//	c, err := client.New([]string{"http://localhost:8080", "http://localhost:8081"})
//	n, err := Add.Call(ctx, c, "c1", AddRequest{Delta: 5})
//
// Commands that change state get an idempotency key, generated here unless the caller
// provides one. If an answer is lost, the client sends the same key again, to another
// gateway if there is one, until the context ends. Give the context a deadline; without
// one [Timeout] applies. The deadline that gateways get is earlier by a tenth of the
// time left, but by at most 100 ms, so that their last answer still arrives.
//
// # What this does not do
//
// Business errors of the entity are never retried. A call made with [entity.NoKey] is retried only if it
// was definitely not applied. The client does not discover gateways: when every base URL leads to some
// other server, a call fails after at most one attempt at each. Its error describes the server that
// answered instead.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/roost-cluster/roost/libs/errornumber"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

// Option is an option of [New].
type Option func(*Client)

// Timeout bounds a call whose context has no deadline. Default 5 s.
func Timeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// Retry sets the first and the longest pause before a call is sent again. Each pause is shortened at random, to
// no less than half. Defaults 20 ms and 500 ms.
func Retry(first, longest time.Duration) Option {
	return func(c *Client) { c.retryMin, c.retryMax = first, longest }
}

// MaxReply sets the longest reply that is read, in bytes. Default 8 MiB.
func MaxReply(bytes int64) Option { return func(c *Client) { c.maxReply = bytes } }

// Trace continues the caller's trace in the gateway, in the region and in the entity's handler: traceparent
// returns the W3C traceparent of the span in the context of a call, or "". This package knows no library for
// traces. With OpenTelemetry:
//
//	client.Trace(func(ctx context.Context) string {
//		header := propagation.MapCarrier{}
//		propagation.TraceContext{}.Inject(ctx, header)
//		return header["traceparent"]
//	})
func Trace(traceparent func(context.Context) string) Option {
	return func(c *Client) { c.trace = traceparent }
}

// Token sets the client's credentials: token returns a JSON Web Token or an API key. It is called for every
// request, so it should remember a token until it expires. Its error ends the call. Give it only with
// https gateways: anyone who reads a token can use it.
func Token(token func(context.Context) (string, error)) Option {
	return func(c *Client) { c.token = token }
}

// TLS sets the certificates that the client trusts and presents. It has no effect with [HTTP].
func TLS(config *tls.Config) Option { return func(c *Client) { c.tls = config } }

// HTTP sets the client that sends the requests. Default: one that keeps 256 connections per
// gateway. If its transport retries requests, it must send each through a
// [http.Transport] with the request's context. Otherwise this package cannot see the
// retries, and takes a refusal of the last one for a refusal of all.
func HTTP(h *http.Client) Option { return func(c *Client) { c.http = h } }

// Client implements [entity.Caller]. It is safe for concurrent use.
type Client struct {
	gateways           []string
	timeout            time.Duration
	retryMin, retryMax time.Duration
	maxReply           int64
	trace              func(context.Context) string          // nil: none
	token              func(context.Context) (string, error) // nil: none
	http               *http.Client                          // nil: newHTTP(tls)
	tls                *tls.Config
	next               atomic.Uint64
	// traced is true if the transport of http reports when a request gets a connection (httptrace.ClientTrace).
	// Then a request that got none was definitely not sent.
	traced bool
}

// New returns a client for gateways with the given base URLs, which are used in turn. It sends nothing yet. An
// error names what is unusable.
func New(gateways []string, options ...Option) (*Client, error) {
	c := &Client{
		gateways: slices.Clone(gateways), timeout: 5 * time.Second,
		retryMin: 20 * time.Millisecond, retryMax: 500 * time.Millisecond, maxReply: 8 << 20,
	}
	for _, o := range options {
		o(c)
	}
	if c.http == nil {
		c.http = newHTTP(c.tls)
	}
	if len(c.gateways) == 0 {
		return nil, errors.New("client: no gateways; give at least one base URL such as http://localhost:8080")
	}
	for i, g := range c.gateways {
		u, err := url.Parse(g)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("client: gateway %q is not a base URL such as http://localhost:8080", g)
		}
		c.gateways[i] = strings.TrimRight(g, "/")
	}
	if c.timeout <= 0 || c.retryMin <= 0 || c.retryMax < c.retryMin || c.maxReply <= 0 {
		return nil, errors.New("client: Timeout, MaxReply and the pauses of Retry must be above 0, and its longest pause at least the first")
	}
	_, traced := c.http.Transport.(*http.Transport)
	c.traced = traced || c.http.Transport == nil
	return c, nil
}

// Close closes the client's idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func newHTTP(t *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: t, MaxIdleConns: 1024, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
		DialContext:        (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		DisableCompression: true, // gateways compress nothing, and each request would ask for it
	}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // gateways do not redirect, and a command must not become a GET
	}}
}

// Attempt describes an attempt that failed and is repeated, for tests and tools.
type Attempt struct {
	// Err is the error of the attempt.
	Err error
	// Number counts from 1.
	Number int
}

type observerKey struct{}

// WithObserver returns a context whose calls report every retry.
func WithObserver(ctx context.Context, f func(Attempt)) context.Context {
	return context.WithValue(ctx, observerKey{}, f)
}

// maxReserve bounds the part of a call's time that is reserved for the transport of the
// last answer.
const maxReserve = 100 * time.Millisecond

// answerBy returns when gateways must have answered a call: a little before its time is
// over. So their last answer still arrives, for example that nothing was applied.
func answerBy(now, deadline time.Time) time.Time {
	return deadline.Add(-min(deadline.Sub(now)/10, maxReserve))
}

// Call implements entity.Caller: it sends the call until it is answered, or its time is over. The Outcome
// of the error describes the known effects of the command.
func (c *Client) Call(ctx context.Context, call entity.Call) (entity.Reply, error) {
	target := sharding.Entity{Type: sharding.EntityType(call.Type), ID: sharding.EntityID(call.ID)}
	names := sharding.Envelope{Entity: target, Command: call.Command, ID: sharding.CommandID(call.Key), Keyed: call.Key != ""}
	if err := names.Check(); err != nil {
		return entity.Reply{}, &entity.Error{Code: entity.InvalidArgument, Outcome: entity.NotApplied, Message: "not sent: " + err.Error()}
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	if call.Key == "" && !call.NoKey && !call.ReadOnly {
		id, err := uuid.NewV7()
		if err != nil {
			return entity.Reply{}, fmt.Errorf("client: no idempotency key: %w", err)
		}
		call.Key = id.String()
	}
	deadline, _ := ctx.Deadline()
	by := answerBy(time.Now(), deadline)
	observe, _ := ctx.Value(observerKey{}).(func(Attempt))
	inDoubt := false         // some attempt had an unknown outcome
	var ranErr *entity.Error // the last error of an attempt in which the command ran
	misdirected := 0         // consecutive attempts that were misdirected, see attempt
	pause := c.retryMin
	first := c.next.Add(1)
	for n := uint64(1); ; n++ {
		a := c.send(ctx, by, c.gateways[(first+n)%uint64(len(c.gateways))], &call)
		if a.err == nil {
			return a.reply, nil
		}
		err, wait := a.err, a.wait
		if misdirected++; !a.misdirected {
			misdirected = 0
		}
		again := misdirected < len(c.gateways) && // otherwise every URL is a wrong one
			(err.Outcome == entity.NotApplied && (a.misdirected || retryable(err.Code)) ||
				err.Outcome == entity.Unknown && err.Code != entity.KeyExpired && (call.Key != "" || call.ReadOnly) ||
				err.Code == entity.ReplyLost && call.Key != "" && a.wait > 0) // a gateway asks for a pause only if the reply is stored
		inDoubt = inDoubt || err.Outcome == entity.Unknown
		if err.Code == entity.ReplyLost {
			ranErr = err
		}
		wait = max(wait, pause/2+rand.N(pause/2+1))
		pause = min(2*pause, c.retryMax)
		if !again || time.Until(by) <= wait {
			return entity.Reply{}, settled(&call, err, ranErr, inDoubt)
		}
		if observe != nil {
			observe(Attempt{Err: err, Number: int(n)})
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if code := codeOf(ctx, nil); code == entity.Canceled && err.Code != code {
				err = &entity.Error{Code: code, Outcome: err.Outcome, Message: "canceled before the next attempt; the last one failed: " + err.Error()}
			}
			return entity.Reply{}, settled(&call, err, ranErr, inDoubt)
		}
	}
}

// settled returns the error of a call, with the outcome of all attempts together. err is the error of the
// last attempt. ranErr is the error of an attempt after which it is known that the command ran; nil: none.
// inDoubt is true if some attempt had an unknown outcome. A read-only command has changed nothing, whatever
// the outcomes were.
func settled(call *entity.Call, err, ranErr *entity.Error, inDoubt bool) error {
	switch {
	case ranErr != nil && err.Outcome != entity.Executed:
		return ranErr
	case call.ReadOnly && err.Outcome == entity.Unknown:
		err.Outcome = entity.NotApplied
	case call.ReadOnly:
	case inDoubt && err.Outcome == entity.NotApplied:
		err.Outcome = entity.Unknown
	}
	return err
}

// retryable reports whether a refusal may be transient.
func retryable(c entity.Code) bool {
	return c == entity.Unavailable || c == entity.ResourceExhausted || c == entity.DeadlineExceeded
}

// codeOf returns the code of an attempt that got no answer because of err. A caller that cancels its context gets one
// code, whenever it does so, and whatever cause it gives.
func codeOf(ctx context.Context, err error) entity.Code {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return entity.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return entity.DeadlineExceeded
	}
	return entity.Unavailable
}

// segment escapes a part of a path, including dots that would be taken for a relative
// path.
func segment(s string) string {
	if s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

// attempt is the result of sending a call once.
type attempt struct {
	reply entity.Reply
	err   *entity.Error
	// wait is the pause that a gateway asks for before the next attempt.
	wait time.Duration
	// misdirected is true if something other than a gateway caused the error, and the same URL will give it
	// again until an operator changes a configuration.
	misdirected bool
}

// send makes one attempt at the gateway with this base URL, which must answer before by.
func (c *Client) send(ctx context.Context, by time.Time, base string, call *entity.Call) attempt {
	var connections atomic.Int32
	a := c.exchange(ctx, by, base, call, &connections)
	// net/http itself repeats a request with an idempotency key if a connection that it reused closes before the
	// answer. Other transports and redirects can repeat it, too. The answer is that to the last request; an earlier
	// one may have taken effect.
	if a.err != nil && a.err.Outcome == entity.NotApplied && connections.Load() > 1 {
		a.err.Outcome = entity.Unknown
	}
	return a
}

// exchange sends the request of an attempt and reads its answer. It counts the connections that carried the request.
func (c *Client) exchange(ctx context.Context, by time.Time, base string, call *entity.Call, connections *atomic.Int32) attempt {
	target := base + "/v1/" + segment(call.Type) + "/" + segment(call.ID) + "/" + segment(call.Command)
	if err := ctx.Err(); err != nil {
		return attempt{err: &entity.Error{Code: codeOf(ctx, err), Outcome: entity.NotApplied, Message: "not sent: " + err.Error()}}
	}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connections.Add(1) },
	})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, target, bytes.NewReader(call.Payload))
	if err != nil {
		return attempt{err: &entity.Error{Code: entity.InvalidArgument, Outcome: entity.NotApplied, Message: err.Error()}}
	}
	req.Header.Set("Content-Type", jsonType)
	if call.Protobuf {
		req.Header.Set("Content-Type", protobufType)
	}
	if call.Key != "" {
		req.Header.Set("Idempotency-Key", call.Key)
	}
	if call.Tell {
		req.Header.Set("Roost-Tell", "true")
	}
	if c.token != nil {
		token, err := c.token(ctx)
		if err != nil && ctx.Err() != nil {
			return attempt{err: &entity.Error{Code: codeOf(ctx, err), Outcome: entity.NotApplied, Message: "not sent: " + err.Error()}}
		}
		if err != nil {
			return attempt{err: &entity.Error{Code: entity.Unauthenticated, Outcome: entity.NotApplied, Message: "not sent, because there is no token: " + err.Error()}}
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if c.trace != nil {
		if parent := c.trace(ctx); parent != "" {
			req.Header.Set("traceparent", parent)
		}
	}
	req.Header.Set("Roost-Timeout", max(time.Until(by).Truncate(time.Millisecond), time.Millisecond).String())
	res, err := c.http.Do(req)
	if err != nil {
		return unreachable(ctx, base, err, c.traced && connections.Load() == 0)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, c.maxReply+1))
	if err != nil {
		return attempt{err: &entity.Error{Code: codeOf(ctx, err), Outcome: entity.Unknown, Message: "the answer of " + base + " broke off: " + err.Error()}}
	}
	media, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	media = strings.ToLower(strings.TrimSpace(media))
	switch {
	case res.StatusCode/100 != 2:
		return failure(base, res, body)
	case !answers(call, res.StatusCode, res.Header.Get("Roost-Outcome")):
		return notGateway(base, res, body) // for example an HTML page with status 200
	case int64(len(body)) > c.maxReply:
		return attempt{err: &entity.Error{Code: entity.Internal, Outcome: entity.Executed, Message: fmt.Sprintf("the reply is longer than MaxReply, %d bytes", c.maxReply)}}
	}
	reply := entity.Reply{Payload: body, Protobuf: media == protobufType}
	if !reply.Protobuf {
		reply.Payload = bytes.TrimSuffix(body, []byte("\n")) // gateways add it for readability
	}
	return attempt{reply: reply}
}

// answers reports whether an answer with a status of success is a gateway's. A default backend or a health page has
// such a status, too, often with JSON: then the command was not executed.
func answers(call *entity.Call, status int, outcome string) bool {
	if call.Tell {
		return status == http.StatusAccepted && outcome == "accepted"
	}
	return status == http.StatusOK && outcome == "executed"
}

// The encodings of payloads, as gateways name them.
const (
	jsonType     = "application/json"
	protobufType = "application/protobuf"
)

// unreachable returns the result of a request that got no answer. If nothing was sent, the
// command was not applied; otherwise it may have been.
func unreachable(ctx context.Context, base string, err error, nothingSent bool) attempt {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err // without the whole URL
	}
	e := &entity.Error{Code: codeOf(ctx, err), Outcome: entity.Unknown, Message: "no answer from " + base + ": " + err.Error()}
	if nothingSent {
		e.Outcome = entity.NotApplied
	}
	var certificate *tls.CertificateVerificationError
	a := attempt{err: e}
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		a.misdirected = true
		e.Message += "; check whether the base URL should begin with http://"
	case errors.As(err, &certificate):
		a.misdirected = true
		e.Message += "; check the host of the base URL, and which certificates the HTTP client trusts"
	}
	if a.misdirected {
		e.Code = entity.Internal
	}
	return a
}

// failure reads the error of a gateway: Twirp's JSON, with the known effects of the command in
// meta.outcome.
func failure(base string, res *http.Response, body []byte) attempt {
	var e struct {
		Code string            `json:"code"`
		Msg  string            `json:"msg"`
		Meta map[string]string `json:"meta"`
	}
	if json.Unmarshal(body, &e) != nil || e.Code == "" {
		return notGateway(base, res, body)
	}
	out := &entity.Error{Code: entity.Code(e.Code), Message: e.Msg}
	switch e.Meta["outcome"] {
	case sharding.Executed.String():
		out.Outcome = entity.Executed
	case sharding.NotApplied.String():
		out.Outcome = entity.NotApplied
	case sharding.Unknown.String():
		out.Outcome = entity.Unknown
	default: // only a gateway sets the outcome
		return notGateway(base, res, body)
	}
	out.Number = e.Meta["error"]
	switch number := errornumber.Number(e.Meta["error"]); { // the gateway sends codes that an entity can also return
	case out.Outcome == entity.Executed && number == errornumber.ReplyLost:
		out.Code = entity.ReplyLost
	case out.Outcome == entity.Unknown && number == errornumber.KeyExpired:
		out.Code = entity.KeyExpired
	}
	ms, _ := strconv.Atoi(e.Meta["retry_after_ms"])
	return attempt{err: out, wait: time.Duration(ms) * time.Millisecond}
}

// plainRequest is the answer of net/http to a request without TLS at a listener with TLS, before any
// handler reads the request. A proxy that passed it on would have added headers.
const plainRequest = "Client sent an HTTP request to an HTTPS server.\n"

// notGateway returns the result of an attempt that something other than a gateway
// answered: a proxy in front of it, whose answer may be transient, or another server at
// the URL. The outcome is unknown, because a proxy may have replaced the answer of a gateway.
func notGateway(base string, res *http.Response, body []byte) attempt {
	who := base
	if server := res.Header.Get("Server"); server != "" {
		who += fmt.Sprintf(" (%.80s)", server)
	}
	message := fmt.Sprintf("not a Roost gateway: %s answered HTTP %s", who, res.Status)
	if to := res.Header.Get("Location"); to != "" {
		message += fmt.Sprintf(", a redirect to %.200s", to)
	}
	if begin := strings.Join(strings.Fields(string(body[:min(len(body), 400)])), " "); begin != "" {
		message += fmt.Sprintf(", %.100q", begin)
	}
	e := &entity.Error{Code: entity.Internal, Outcome: entity.Unknown, Message: message}
	switch s := res.StatusCode; {
	case s == http.StatusRequestTimeout, s == http.StatusTooManyRequests, s >= 500 && s != http.StatusNotImplemented:
		e.Code = entity.Unavailable
		return attempt{err: e}
	}
	if strings.HasPrefix(base, "http:") && len(res.Header) == 0 && string(body) == plainRequest {
		e.Outcome = entity.NotApplied
		e.Message = "not sent: " + base + " serves TLS; the base URL should begin with https://"
		return attempt{err: e, misdirected: true}
	}
	e.Message += "; check that the base URL names a gateway's service listener, and what any proxy before it allows"
	return attempt{err: e, misdirected: true}
}

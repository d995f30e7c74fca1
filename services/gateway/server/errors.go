package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/errornumber"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
)

// failure is the error that a client gets. This file decides what clients learn about errors, except for requests that
// are refused earlier: by package node (strange origins, paths that are not clean, too many connections) and by package
// bounded (messages that are too long, cannot be read, or do not arrive). POST /v1 answers in the JSON of Twirp:
//
//	{"code":"unavailable","msg":"…","meta":{"outcome":"not_applied","error":"ROOST-1005","retry_after_ms":"200"}}
//
// meta.outcome describes the command's effects, as far as they are known. meta.error is the stable number
// of an error of Roost, see package errornumber. Errors of entities have no number. retry_after_ms, if it
// is there, is the time to wait before a retry. The header Retry-After has the same time in seconds,
// rounded up.
type failure struct {
	code       sharding.Code
	message    string
	outcome    sharding.Outcome
	number     errornumber.Number // empty: the entity's own answer
	retryAfter int                // ms
	status     int                // if not Twirp's own for the code
}

// notApplied has the error numbers of commands that were definitely not applied.
var notApplied = map[sharding.Code]errornumber.Number{
	sharding.InvalidArgument:   errornumber.InvalidRequest,
	sharding.NotFound:          errornumber.UnknownType,
	sharding.Unimplemented:     errornumber.UnknownCommand,
	sharding.ResourceExhausted: errornumber.Overloaded,
	sharding.Unavailable:       errornumber.Unavailable,
	sharding.DeadlineExceeded:  errornumber.TooLate,
	sharding.AlreadyExists:     errornumber.KeyConflict,
	sharding.Internal:          errornumber.Failed,
	sharding.DataLoss:          errornumber.Failed,
	sharding.UnknownCommand:    errornumber.OtherVersion,
	sharding.Unauthenticated:   errornumber.Unauthenticated,
	sharding.PermissionDenied:  errornumber.PermissionDenied,
	sharding.EntityQuarantined: errornumber.EntityQuarantined,
}

const badRoute sharding.Code = "bad_route"

// failureOf is the failure of an ended request; nil: it succeeded.
func failureOf(f *router.Finish) *failure {
	r := &f.Reply
	if r.Outcome == sharding.Executed && r.Code == "" {
		return nil
	}
	out := &failure{code: r.Code, message: r.Message, retryAfter: f.RetryAfter}
	if out.code == "" {
		out.code = sharding.Internal
	}
	switch r.Outcome {
	case sharding.Executed:
		out.outcome = sharding.Executed
		if out.code == sharding.ReplyLost {
			out.code, out.number = sharding.ResourceExhausted, errornumber.ReplyLost
		}
	case sharding.NotApplied:
		out.outcome, out.number = sharding.NotApplied, notApplied[out.code]
		if out.number == "" {
			out.number = errornumber.Refused
		}
	default:
		out.outcome, out.number = sharding.Unknown, errornumber.InDoubt
		if out.code == sharding.DeadlineExceeded {
			out.number = errornumber.NoAnswer
		}
		if out.code == sharding.KeyExpired {
			out.number = errornumber.KeyExpired
		}
	}
	switch out.code {
	case sharding.UnknownCommand:
		out.code = sharding.Unavailable
	case sharding.EntityQuarantined:
		out.code = sharding.FailedPrecondition
	case sharding.KeyExpired:
		out.code = sharding.Aborted
	}
	return out
}

// refusal is a failure of a command that never entered the core.
func refusal(code sharding.Code, message string) *failure {
	return failureOf(&router.Finish{Reply: sharding.Reject(code, message)})
}

func noRoute(message string) *failure {
	return &failure{code: badRoute, message: message, outcome: sharding.NotApplied, number: errornumber.NoRoute}
}

func notAllowed(message string) *failure {
	f := noRoute(message)
	f.status = http.StatusMethodNotAllowed
	return f
}

func tooLong(limit int64) *failure {
	return &failure{
		code: sharding.InvalidArgument, message: "the payload is longer than gateway.max_body, " + strconv.FormatInt(limit, 10) + " bytes",
		outcome: sharding.NotApplied, number: errornumber.TooLong, status: http.StatusRequestEntityTooLarge,
	}
}

func unsupported(header, value, instead string) *failure {
	return &failure{
		code: sharding.InvalidArgument, message: fmt.Sprintf("%s %.100q is not taken; %s", header, value, instead),
		outcome: sharding.NotApplied, number: errornumber.UnsupportedMedia, status: http.StatusUnsupportedMediaType,
	}
}

// clientGone is the failure for a client that is gone, or whose connection only looked dead.
func (s *Server) clientGone(env *sharding.Envelope) *failure {
	return failureOf(&router.Finish{Reply: s.unanswered(env, sharding.DeadlineExceeded, "the request ended before its command")})
}

// unanswered is the reply to a command that was given up, perhaps after it was
// sent.
func (s *Server) unanswered(env *sharding.Envelope, code sharding.Code, what string) sharding.Reply {
	if t := s.types.Load().byName[env.Entity.Type]; t != nil {
		if c, ok := t.desc.Command(env.Command); ok && c.ReadOnly {
			return sharding.Reject(code, what+"; it is read-only and changed nothing")
		}
	}
	return sharding.Doubt(code, what+"; the command may or may not have been applied")
}

func (f *failure) meta() map[string]string {
	m := map[string]string{"outcome": f.outcome.String()}
	if f.number != "" {
		m["error"] = string(f.number)
	}
	if f.retryAfter > 0 {
		m["retry_after_ms"] = strconv.Itoa(f.retryAfter)
	}
	return m
}

// httpStatus is Twirp's status of the code; 500 for codes that are not Twirp's.
func (f *failure) httpStatus() int {
	if f.status != 0 {
		return f.status
	}
	if s := twirp.ServerHTTPStatusFromErrorCode(twirp.ErrorCode(f.code)); s >= 400 {
		return s
	}
	return http.StatusInternalServerError
}

// retryAfterSeconds is the content of Retry-After; empty: do not say.
func (f *failure) retryAfterSeconds() string {
	if f.retryAfter <= 0 {
		return ""
	}
	return strconv.Itoa((f.retryAfter + 999) / 1000)
}

// write answers a request of the plain API.
func (f *failure) write(w http.ResponseWriter) {
	body, err := json.Marshal(struct {
		Code string            `json:"code"`
		Msg  string            `json:"msg"`
		Meta map[string]string `json:"meta"`
	}{string(f.code), f.message, f.meta()})
	if err != nil { // strings always marshal
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body = append(body, '\n')
	h := w.Header()
	h["Content-Type"] = jsonType
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if s := f.retryAfterSeconds(); s != "" {
		h.Set("Retry-After", s)
	}
	status := f.httpStatus()
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if status == http.StatusMethodNotAllowed {
		h.Set("Allow", http.MethodPost)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a broken client is its own matter
}

// twirp is the failure in the generic API. A code that Twirp does not know
// becomes unknown and is kept in meta.code.
func (f *failure) twirp() twirp.Error {
	code, meta := twirp.ErrorCode(f.code), f.meta()
	if code == twirp.NoError || !twirp.IsValidErrorCode(code) {
		meta["code"], code = string(f.code), twirp.Unknown
	}
	e := twirp.NewError(code, f.message)
	for k, v := range meta { // order-free: a map again
		e = e.WithMeta(k, v)
	}
	return e
}

// result is the failure of one item of AskMany.
func (f *failure) result() *gatewayv1.AskResult {
	return &gatewayv1.AskResult{Error: &gatewayv1.Error{
		Code: string(f.code), Message: f.message, Outcome: f.outcome.String(), RetryAfterMs: uint32(f.retryAfter), Number: string(f.number),
	}}
}

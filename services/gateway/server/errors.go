package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
)

// failure is the error that a client gets. All that clients are told of errors
// is decided in this file, but for what packages node (ROOST-1013, paths that are not
// clean, too many connections) and bounded (messages that are too long, cannot be read,
// or do not arrive) refuse before it comes here. POST /v1 answers Twirp's JSON:
//
//	{"code":"unavailable","msg":"…","meta":{"executed":"false","error":"ROOST-1005","retry_after_ms":"200"}}
//
// meta.executed says what is known of the command's effects:
//
//	"true"     it ran, and this error is its answer (without a number), or there was
//	           no room for its reply (ROOST-1014)
//	"false"    it was definitely not applied
//	"unknown"  it may or may not have been applied: send it again with its key, unless that
//	           has expired (ROOST-1103)
//
// meta.error is a stable number for what Roost itself has to say; the entity's
// own answers have none:
//
//	number      executed  code                 HTTP  when                                                       send again
//	ROOST-1001  false     invalid_argument     400   a name, header or payload is wrong                         no
//	ROOST-1002  false     not_found            404   no region has ever hosted the type                         no
//	ROOST-1003  false     unimplemented        501   the type has no such command                               no
//	ROOST-1004  false     resource_exhausted   429   too much is under way here or in the region                yes
//	ROOST-1005  false     unavailable          503   the shard has no home yet, no registered region hosts      yes
//	                                                 the type, the gateway stops, or has too many connections
//	ROOST-1006  false     deadline_exceeded    408   the time was over before the command could run             yes
//	ROOST-1007  false     already_exists       409   the key was used for another command                       no
//	ROOST-1008  false     internal, data_loss  500   the handler failed and was undone, or state cannot be read no
//	ROOST-1009  false     any other            any   refused by the region                                      no
//	ROOST-1010  false     bad_route            404   no such path; 405: GET of what is not read-only            no
//	ROOST-1011  false     invalid_argument     413   the payload is too long                                    no
//	ROOST-1012  false     invalid_argument     415   neither JSON nor protobuf                                  no
//	ROOST-1013  false     permission_denied    403   a web page of another origin, or a name that is not ours   no
//	ROOST-1014  true      resource_exhausted   429   it ran, and there is no room for its reply                 with its key
//	ROOST-1015  false     unavailable          503   the version that serves the entity does not have the       yes
//	                                                 command, another version has it
//	ROOST-1101  unknown   deadline_exceeded    408   no answer within the time                                  with its key
//	ROOST-1102  unknown   any other            any   the link was lost, the shard moved, the journal is silent  with its key
//	ROOST-1103  unknown   aborted              409   the key is too old to tell whether the command was run     no
//
// retry_after_ms is how long to wait before, if it is said; the header
// Retry-After has the same in seconds, rounded up.
type failure struct {
	code       sharding.Code
	message    string
	executed   string
	number     string
	retryAfter int // ms
	status     int // if not Twirp's own for the code
}

// rejected are the numbers of what was definitely not applied.
var rejected = map[sharding.Code]string{
	sharding.InvalidArgument:   "ROOST-1001",
	sharding.NotFound:          "ROOST-1002",
	sharding.Unimplemented:     "ROOST-1003",
	sharding.ResourceExhausted: "ROOST-1004",
	sharding.Unavailable:       "ROOST-1005",
	sharding.DeadlineExceeded:  "ROOST-1006",
	sharding.AlreadyExists:     "ROOST-1007",
	sharding.Internal:          "ROOST-1008",
	sharding.DataLoss:          "ROOST-1008",
	sharding.UnknownCommand:    otherVersion,
}

// otherVersion is the number of a refusal by a version that does not have the command.
const otherVersion = "ROOST-1015"

const badRoute sharding.Code = "bad_route"

// failureOf is the failure of an ended request; nil: it succeeded.
func failureOf(f *router.Finish) *failure {
	r := &f.Reply
	if r.Outcome == sharding.OK && r.Code == "" {
		return nil
	}
	out := &failure{code: r.Code, message: r.Message, retryAfter: f.RetryAfter}
	if out.code == "" {
		out.code = sharding.Internal
	}
	switch r.Outcome {
	case sharding.OK:
		out.executed = "true"
		if out.code == sharding.ReplyLost {
			out.code, out.number = sharding.ResourceExhausted, "ROOST-1014"
		}
	case sharding.Rejected:
		out.executed, out.number = "false", rejected[out.code]
		if out.number == "" {
			out.number = "ROOST-1009"
		}
	default:
		out.executed, out.number = "unknown", "ROOST-1102"
		if out.code == sharding.DeadlineExceeded {
			out.number = "ROOST-1101"
		}
		if out.code == sharding.KeyExpired {
			out.number = "ROOST-1103"
		}
	}
	switch out.code {
	case sharding.UnknownCommand:
		out.code = sharding.Unavailable
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
	return &failure{code: badRoute, message: message, executed: "false", number: "ROOST-1010"}
}

func notAllowed(message string) *failure {
	f := noRoute(message)
	f.status = http.StatusMethodNotAllowed
	return f
}

func tooLong(limit int64) *failure {
	return &failure{
		code: sharding.InvalidArgument, message: "the payload is longer than gateway.max_body, " + strconv.FormatInt(limit, 10) + " bytes",
		executed: "false", number: "ROOST-1011", status: http.StatusRequestEntityTooLarge,
	}
}

func unsupported(header, value, instead string) *failure {
	return &failure{
		code: sharding.InvalidArgument, message: fmt.Sprintf("%s %.100q is not taken; %s", header, value, instead),
		executed: "false", number: "ROOST-1012", status: http.StatusUnsupportedMediaType,
	}
}

// clientGone is what nobody reads, unless the connection only looked dead.
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
	m := map[string]string{"executed": f.executed}
	if f.number != "" {
		m["error"] = f.number
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
		Code: string(f.code), Message: f.message, Executed: f.executed, RetryAfterMs: uint32(f.retryAfter), Number: f.number,
	}}
}

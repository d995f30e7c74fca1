package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/sharding"
)

// route is the plain API: POST /v1/{type}/{id}/{command} with the payload as
// body, answered with the reply as body. GET does for read-only commands
// without input.
const route = "/v1/{type}/{id}/{command}"

// Header values that are always the same; no code changes them.
var (
	jsonType     = []string{"application/json"}
	protobufType = []string{"application/protobuf"}
	closing      = []string{"close"}
)

// serveCommand serves everything below /v1/.
func (s *Server) serveCommand(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	entity, command, ok := splitPath(r.URL.EscapedPath())
	if !ok {
		s.fail(w, noRoute(fmt.Sprintf("no route %.200q; write POST %s, with every / ? # and %% in the id escaped; health and metrics are on the management listener", r.URL.EscapedPath(), route)))
		return
	}
	ctx, span := s.startServer(r, r.Method+" "+route)
	c := s.newCall(sharding.Envelope{Entity: entity, Command: command}, arrived)
	c.from = r.RemoteAddr
	f := s.authenticate(r, &c.Env)
	if f == nil {
		f = s.tooFast(s.rates.counted(c.Env.Principal, r), arrived)
	}
	if f == nil {
		f = s.admit(r, c)
	}
	if f != nil {
		s.end(c, f, 0, span)
		s.answer(w, c, f)
		c.release()
		return
	}
	routing := s.startRoute(ctx, c)
	s.submit(c)
	if !s.wait(ctx, c) {
		f := s.clientGone(&c.Env)
		s.endRoute(routing, nil)
		s.end(c, f, 0, span)
		s.fail(w, f) // unless the connection only looked dead: never an empty success
		return
	}
	f = failureOf(&c.finish)
	s.endRoute(routing, &c.finish)
	s.end(c, f, c.finish.Attempts, span)
	s.answer(w, c, f)
	s.router.Delivered(c.finish.Held)
	c.release()
}

// splitPath parses the path of a command. The wildcards of http.ServeMux are not
// suitable: they do not match an id that is a single slash.
func splitPath(escaped string) (e sharding.Entity, command string, ok bool) {
	rest, found := strings.CutPrefix(escaped, "/v1/")
	typ, rest, found2 := strings.Cut(rest, "/")
	id, command, found3 := strings.Cut(rest, "/")
	if !found || !found2 || !found3 || strings.Contains(command, "/") {
		return e, "", false
	}
	for _, p := range []*string{&typ, &id, &command} {
		if *p == "" {
			return e, "", false
		}
		if strings.Contains(*p, "%") {
			// A dot is the only escape of a name's character that the listener lets through, for ids of dots. In a type or
			// command, a rule of a proxy about the path could be passed by it.
			if p != &id && strings.Contains(strings.ToUpper(*p), "%2E") {
				return e, "", false
			}
			var err error
			if *p, err = url.PathUnescape(*p); err != nil {
				return e, "", false
			}
		}
	}
	return sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)}, command, true
}

// admit reads a command. The body comes last, so that a command with wrong names or
// headers is refused without it.
func (s *Server) admit(r *http.Request, c *call) *failure {
	timeout, f := s.decode(r, c)
	if f == nil {
		f = s.check(c, timeout)
	}
	if f != nil || r.Method != http.MethodPost {
		return f
	}
	if f = s.shed(c, timeout); f == nil {
		c.Env.Payload, f = s.readBody(r)
	}
	return f
}

// decode reads the headers.
func (s *Server) decode(r *http.Request, c *call) (timeout time.Duration, f *failure) {
	env := &c.Env
	if f := strangeHeader(r); f != nil {
		return 0, f
	}
	key, keyed, f := header(r, "Idempotency-Key")
	if f != nil {
		return 0, f
	}
	env.ID, env.Keyed = sharding.CommandID(key), keyed
	tell, told, f := header(r, "Roost-Tell")
	if f != nil {
		return 0, f
	}
	if env.Tell = tell == "true"; told && !env.Tell && tell != "false" {
		return 0, refusal(sharding.InvalidArgument, fmt.Sprintf("Roost-Tell is %.40q; write true or false", tell))
	}
	t, timed, f := header(r, "Roost-Timeout")
	if f != nil {
		return 0, f
	}
	if timed {
		var err error
		if timeout, err = time.ParseDuration(t); err != nil || timeout <= 0 {
			return 0, refusal(sharding.InvalidArgument, fmt.Sprintf("Roost-Timeout %.40q is not a duration above 0; write it like 1500ms", t))
		}
	}
	if r.URL.RawQuery != "" {
		return 0, refusal(sharding.InvalidArgument, "a command has no query; send its input as the body of a POST")
	}
	switch r.Method {
	case http.MethodPost:
	case http.MethodGet:
		if r.ContentLength != 0 {
			return 0, refusal(sharding.InvalidArgument, "the body of a GET is not read; use POST")
		}
		return timeout, s.checkGet(env)
	default:
		return 0, notAllowed(r.Method + " is not served here; use POST, or GET for a read-only command")
	}
	var known bool
	if env.Encoding, known = encodingOf(r.Header.Get("Content-Type")); !known {
		return 0, unsupported("Content-Type", r.Header.Get("Content-Type"), "send application/json in UTF-8 (curl: --json) or application/protobuf")
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return 0, unsupported("Content-Encoding", coding, "send the body as it is")
	}
	return timeout, nil
}

// header returns the value of one of our headers. It must not be empty or repeated,
// because the client relies on it.
func header(r *http.Request, name string) (value string, given bool, f *failure) {
	values := r.Header[name]
	switch {
	case len(values) == 0:
		return "", false, nil
	case len(values) > 1:
		return "", true, refusal(sharding.InvalidArgument, name+" is given more than once")
	case values[0] == "":
		return "", true, refusal(sharding.InvalidArgument, name+" is empty; give it a value or leave it out")
	}
	return values[0], true, nil
}

// strangeHeader refuses a header that begins as Roost's own do, and is none of them: its sender expects an effect, for
// example of one that is misspelled.
func strangeHeader(r *http.Request) *failure {
	for name := range r.Header { // order-free: each is a reason
		if strings.HasPrefix(name, "Roost-") && !slices.Contains(plainHeaders, name) {
			return refusal(sharding.InvalidArgument, fmt.Sprintf("there is no request header %.40s; the headers of Roost are %s", name, strings.Join(plainHeaders, ", ")))
		}
	}
	return nil
}

// checkGet allows only read-only commands, because anything may follow a link.
func (s *Server) checkGet(env *sharding.Envelope) *failure {
	types := s.types.Load()
	if !types.known {
		f := refusal(sharding.Unavailable, "the route table is not known yet")
		f.retryAfter = s.retryHint
		return f
	}
	t := types.byName[env.Entity.Type]
	if t == nil {
		return nil // the core refuses it
	}
	if c, ok := t.desc.Command(env.Command); ok && !c.ReadOnly {
		return notAllowed(fmt.Sprintf("%s of %s is not read-only; use POST", env.Command, env.Entity.Type))
	}
	return nil
}

// encodingOf is the encoding that a Content-Type names. A body without one is
// taken for JSON. What a page of another origin can send without asking first,
// forms and plain text, is refused.
func encodingOf(contentType string) (sharding.Encoding, bool) {
	switch contentType { // without work for what clients mostly say
	case "application/json", "":
		return sharding.JSON, true
	case "application/protobuf":
		return sharding.Protobuf, true
	}
	media, _, _ := strings.Cut(contentType, ";")
	_, params, _ := mime.ParseMediaType(contentType)
	switch charset := params["charset"]; strings.ToLower(strings.TrimSpace(media)) {
	case "application/json":
		return sharding.JSON, charset == "" || strings.EqualFold(charset, "utf-8")
	case "application/protobuf", "application/x-protobuf":
		return sharding.Protobuf, true
	}
	return 0, false
}

// readBody reads the payload up to the limit. Its memory grows with what arrives,
// whatever length the header announces.
func (s *Server) readBody(r *http.Request) ([]byte, *failure) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	limit := int64(s.cfg.MaxPayload)
	body, err := bounded.ReadAll(r.Body, r.ContentLength, limit)
	switch {
	case err == nil && (r.ContentLength < 0 || int64(len(body)) == r.ContentLength):
		return body, nil
	case errors.Is(err, bounded.ErrTooLarge) || errors.As(err, new(*http.MaxBytesError)):
		return nil, tooLong(limit)
	case errors.Is(err, bounded.ErrFull):
		f := refusal(sharding.ResourceExhausted, "too many bytes of requests are held by this gateway (service.body_bytes)")
		f.retryAfter = s.retryHint
		return nil, f
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refusal(sharding.DeadlineExceeded, "not applied: the request body did not arrive in time (service.body_timeout, service.read_timeout)")
	case err == nil:
		err = io.ErrUnexpectedEOF
	}
	return nil, refusal(sharding.InvalidArgument, "the request body broke off: "+err.Error())
}

// answer writes the result of a call.
func (s *Server) answer(w http.ResponseWriter, c *call, f *failure) {
	h := w.Header()
	values := [...]string{serverTiming(&c.finish.Reply.Timing, time.Since(c.arrived)), c.finish.Region.Addr}
	h["Server-Timing"] = values[:1:1]
	if s.cfg.TellRegion && c.finish.Region.Addr != "" {
		h["Roost-Region"] = values[1:]
	}
	if f != nil {
		s.fail(w, f)
		return
	}
	h[outcomeHeader] = outcomeExecuted
	if c.Env.Tell {
		h[outcomeHeader] = outcomeAccepted
	}
	if s.stopping.Load() {
		h["Connection"] = closing
	}
	reply := &c.finish.Reply
	if len(reply.Payload) == 0 {
		if c.Env.Tell {
			w.WriteHeader(http.StatusAccepted)
		} else if reply.Encoding == sharding.Protobuf {
			h["Content-Type"] = protobufType // an empty message
		}
		return
	}
	h["Content-Type"] = jsonType
	end := newline
	if reply.Encoding == sharding.Protobuf {
		h["Content-Type"] = protobufType
		end = nil
	}
	if n := len(reply.Payload) + len(end); n > 2048 { // net/http does it for shorter ones
		h.Set("Content-Length", strconv.Itoa(n))
	}
	_, _ = w.Write(reply.Payload) // errors of clients are ignored
	if end != nil {
		_, _ = w.Write(end)
	}
}

// outcomeHeader is in each answer that is a success. It shows clients that the answer comes from a gateway: a default backend or
// a health page has a status of success, too, and may be JSON.
const outcomeHeader = "Roost-Outcome"

var outcomeExecuted, outcomeAccepted = []string{"executed"}, []string{"accepted"}

// newline ends JSON, for readers in a terminal.
var newline = []byte("\n")

func (s *Server) fail(w http.ResponseWriter, f *failure) {
	if s.stopping.Load() {
		w.Header()["Connection"] = closing
	}
	f.write(w)
}

// serverTiming returns the header that shows where the time went, in milliseconds; route
// is the rest of the total: gateway, network, and waiting for a home.
func serverTiming(t *sharding.Timing, total time.Duration) string {
	var buf [128]byte
	b := buf[:0]
	for _, p := range []struct {
		name string
		d    time.Duration
	}{
		{"route;dur=", max(0, total-t.Mailbox-t.Handler-t.Journal)}, {", mailbox;dur=", t.Mailbox},
		{", handler;dur=", t.Handler}, {", journal;dur=", t.Journal}, {", total;dur=", total},
	} {
		b = append(b, p.name...)
		b = appendMilliseconds(b, p.d)
	}
	return string(b)
}

// appendMilliseconds appends a duration with up to three decimals. The result is the same as
// strconv.AppendFloat's, which takes five times as long.
func appendMilliseconds(b []byte, d time.Duration) []byte {
	us := max(0, d.Microseconds())
	b = strconv.AppendInt(b, us/1000, 10)
	if us %= 1000; us == 0 {
		return b
	}
	b = append(b, '.', byte('0'+us/100), byte('0'+us/10%10), byte('0'+us%10))
	return bytes.TrimRight(b, "0")
}

// end records the end of a request.
func (s *Server) end(c *call, f *failure, attempts int, span trace.Span) {
	s.observe(c, f, attempts)
	if span != nil {
		endServer(span, c, f)
	}
}

package security

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roost-cluster/roost/libs/node/telemetry"
)

// audit records what operators do. For each request that may change something, it writes a line before the request is
// carried out, and a line with the outcome. With a file, the first line is on disk before anything is done.
type Audit struct {
	path string // empty: lines go to the log
	node string
	log  *slog.Logger

	mu     sync.Mutex
	file   *os.File
	torn   bool // the file may end with a part of a line
	last   uint64
	recent map[[sha256.Size]byte]*repeatedRequest
}

// operatorKey is the key of the operator in the context of a request to the management listener.
type operatorKey struct{}

// operator is the sender of a request to the management listener.
type operator struct {
	Operator
	remote string // address
}

// WithOperator returns the context of a request of an operator, which comes from an address.
func WithOperator(ctx context.Context, who Operator, remote string) context.Context {
	return context.WithValue(ctx, operatorKey{}, operator{who, remote})
}

const (
	// repeatedWithin is the time in which an equal request of the same operator counts as a repetition. The roost
	// command repeats some requests a few times a second, until the answer reports that they are done.
	repeatedWithin = 10 * time.Second
	// maxRecent is the number of different requests that are remembered, to recognize repetitions.
	maxRecent = 1024
)

// repeatedRequest is a request that may be repeated.
type repeatedRequest struct {
	line    AuditLine // its first
	outcome string    // of the last; empty: it has not ended
	at      time.Time // of the last
	times   int       // how often it was repeated
}

// AuditLine is a line of the audit, as JSON.
type AuditLine struct {
	Time string `json:"time"`
	Node string `json:"node"`
	// ID is the same in all lines of a request to one start of a process.
	ID uint64 `json:"id"`
	// Phase is begin, end or repeated.
	Phase     string          `json:"phase"`
	Operator  string          `json:"operator"` // empty: no token was needed
	Remote    string          `json:"remote"`
	Operation string          `json:"operation"`
	Reason    string          `json:"reason,omitempty"`
	Request   json.RawMessage `json:"request,omitempty"`
	Outcome   string          `json:"outcome,omitempty"`
	Times     int             `json:"times,omitempty"`
}

// OpenAudit opens the file that management.audit names, to append lines.
func OpenAudit(path, node string, log *slog.Logger) (*Audit, error) {
	a := &Audit{path: path, node: node, log: log, recent: map[[sha256.Size]byte]*repeatedRequest{}}
	if path == "" {
		return a, nil
	}
	if err := a.reopen(); err != nil {
		return nil, fmt.Errorf("management.audit: %w", err)
	}
	return a, nil
}

// reopen opens the file, unless it is open and still has its name. It has another name after a rotation.
func (a *Audit) reopen() error {
	if a.file != nil {
		named, err := os.Stat(a.path)
		if open, openErr := a.file.Stat(); err == nil && openErr == nil && os.SameFile(named, open) {
			return nil
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_ = a.file.Close() // all of it is on disk
		a.file = nil
	}
	file, err := os.OpenFile(a.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	a.file, a.torn = file, endsTorn(a.path)
	return nil
}

// endsTorn reports whether the file at path ends with a part of a line: the disk was full, or the power failed. What is
// not a regular file is not read.
func endsTorn(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	var last [1]byte
	_, err = file.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// write writes a line. The lock must be held.
func (a *Audit) write(line AuditLine) error {
	if a.path == "" {
		record := slog.NewRecord(time.Now(), slog.LevelInfo, "audit", 0)
		record.Add("id", line.ID, "phase", line.Phase, "operator", line.Operator, "remote", line.Remote, "operation", line.Operation,
			"request", telemetry.Uncut(line.Request), "outcome", line.Outcome, "times", line.Times)
		// Not by the logger: it hides that the log has no room, and leaves the line out if log.level is above info. A
		// line that only waits may be lost: what it announces would then be done without a trace.
		return telemetry.LogSurely(context.Background(), a.log, record)
	}
	text, err := json.Marshal(line)
	if err == nil {
		err = a.reopen()
	}
	if err == nil {
		if a.torn { // otherwise this line would be a part of that one, and neither is JSON
			text = append([]byte{'\n'}, text...)
		}
		_, err = a.file.Write(append(text, '\n'))
		a.torn = err != nil
	}
	if err == nil {
		err = a.file.Sync()
	}
	return err
}

// begin records a request before it is carried out. If it returns an error, the request must not be carried out.
// Otherwise end must be called with the outcome.
func (a *Audit) Begin(ctx context.Context, operation string, request proto.Message) (end func(outcome string), err error) {
	who, _ := ctx.Value(operatorKey{}).(operator)
	line := AuditLine{Node: a.node, Phase: "begin", Operator: who.Name, Remote: who.remote, Operation: operation}
	line.Request, line.Reason = describe(request)
	key := sha256.Sum256(fmt.Appendf(nil, "%q %q %s", who.Name, operation, line.Request))
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(now)
	known := a.recent[key]
	if known == nil {
		a.last++
		line.ID, line.Time = a.last, stampOf(now)
		if err := a.write(line); err != nil {
			return nil, fmt.Errorf("nothing was done, because the audit cannot be written (management.audit): %w", err)
		}
		known = &repeatedRequest{line: line, at: now}
		a.recent[key] = known
	} else {
		known.at = now
		known.times++
	}
	return func(outcome string) { a.end(known, outcome) }, nil
}

// end records the outcome of a request, unless a repetition has the same outcome as the request before.
func (a *Audit) end(r *repeatedRequest, outcome string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.outcome == outcome {
		return
	}
	r.outcome = outcome
	line := r.line
	line.Time, line.Phase, line.Request, line.Reason, line.Outcome = stampOf(time.Now()), "end", nil, "", outcome
	if err := a.write(line); err != nil { // the request is done already, so the log has to do
		a.log.Error("cannot write an outcome to management.audit", "id", line.ID, "operation", line.Operation, "outcome", outcome, "error", err)
	}
}

// forget forgets requests that are not repeated any more, and writes how often each was repeated.
func (a *Audit) forget(now time.Time) {
	for key, r := range a.recent { // order-free: each has its own line
		if now.Sub(r.at) < repeatedWithin && len(a.recent) < maxRecent {
			continue
		}
		delete(a.recent, key)
		a.writeRepeated(r)
	}
}

func (a *Audit) writeRepeated(r *repeatedRequest) {
	if r.times == 0 {
		return
	}
	line := r.line
	line.Time, line.Phase, line.Request, line.Reason, line.Times = stampOf(r.at), "repeated", nil, "", r.times
	if err := a.write(line); err != nil {
		a.log.Error("management.audit cannot be written", "id", line.ID, "operation", line.Operation, "times", r.times, "error", err)
	}
}

// close writes the repetitions that are not written yet, and closes the file.
func (a *Audit) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.recent { // order-free: each has its own line
		a.writeRepeated(r)
	}
	a.recent = nil
	if a.file != nil {
		_ = a.file.Close() // all of it is on disk
		a.file = nil
	}
}

func stampOf(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// interceptor records the calls of a Twirp service, except for methods that change nothing.
func (a *Audit) Interceptor(reads []string) twirp.Interceptor {
	return func(next twirp.Method) twirp.Method {
		return func(ctx context.Context, request any) (any, error) {
			method, _ := twirp.MethodName(ctx)
			if slices.Contains(reads, method) {
				return next(ctx, request)
			}
			service, _ := twirp.ServiceName(ctx)
			message, _ := request.(proto.Message)
			end, err := a.Begin(ctx, service+"/"+method, message)
			if err != nil {
				return nil, twirp.NewError(twirp.Unavailable, err.Error())
			}
			answer, err := next(ctx, request)
			outcome := "ok"
			var failed twirp.Error
			if errors.As(err, &failed) {
				outcome = string(failed.Code()) + ": " + failed.Msg()
			} else if err != nil {
				outcome = err.Error()
			}
			end(outcome)
			return answer, err
		}
	}
}

// describe returns a request as JSON without its payloads, and the reason that it gives.
func describe(request proto.Message) (text json.RawMessage, reason string) {
	if request == nil {
		return nil, ""
	}
	request = proto.Clone(request)
	m := request.ProtoReflect()
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() == protoreflect.BytesKind:
			m.Clear(f)
		case f.Kind() == protoreflect.StringKind && f.Name() == "reason" && !f.IsList():
			reason = v.String()
		}
		return true
	})
	text, err := protojson.Marshal(request)
	if err != nil {
		return nil, reason
	}
	return text, reason
}

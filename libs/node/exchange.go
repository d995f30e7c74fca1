package node

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/roost-cluster/roost/libs/bounded"
)

// An exchange is one request and its answer. It is the body that handlers read:
// counted, and bounded in the time between two bytes. And it is the writer that
// they answer by: a client that takes nothing of an answer for too long is cut
// off, while one that is slow is not.
type exchange struct {
	http.ResponseWriter
	body         bounded.Body
	whole        time.Time // when the request must have arrived
	bodyTimeout  time.Duration
	writeTimeout time.Duration
	unread       bool // there is a body, and its end was not seen
	written      int
}

// piece is how much of an answer is written at a time: a client that takes as
// much in each service.write_timeout is alive. Answers that are shorter have the
// time of their request.
const piece = 16 << 10

func newExchange(w http.ResponseWriter, r *http.Request, config *Config, budget *bounded.Budget) *exchange {
	e := &exchange{ResponseWriter: w, bodyTimeout: config.BodyTimeout, writeTimeout: config.WriteTimeout}
	if r.Body == nil || r.Body == http.NoBody {
		return e
	}
	e.whole, e.unread = time.Now().Add(config.ReadTimeout), true
	body := r.Body
	// The server itself keeps a body to its announced length.
	if most := int64(config.MaxBody); r.ContentLength < 0 || r.ContentLength > most {
		body = http.MaxBytesReader(w, body, most)
	}
	e.body = budget.Body(body)
	r.Body = e
	return e
}

// Read is that of the request's body.
func (e *exchange) Read(p []byte) (int, error) {
	if !e.unread {
		return e.body.Read(p)
	}
	control := http.NewResponseController(e.ResponseWriter)
	next := time.Now().Add(e.bodyTimeout)
	if next.After(e.whole) {
		next = e.whole
	}
	_ = control.SetReadDeadline(next) // fails in tests only, where nothing waits
	n, err := e.body.Read(p)
	if errors.Is(err, io.EOF) {
		e.unread = false
		_ = control.SetReadDeadline(e.whole) // the server listens for the client's end meanwhile
	}
	return n, err
}

// Take counts what a compressed body expands to.
func (e *exchange) Take(n int64) bool { return e.body.Take(n) }

// Close is that of the request's body.
func (e *exchange) Close() error { return e.body.Close() }

// Write is that of the answer.
func (e *exchange) Write(p []byte) (n int, err error) {
	for {
		part := p[n:min(len(p), n+piece)]
		if e.written += len(part); e.written > piece {
			_ = http.NewResponseController(e.ResponseWriter).SetWriteDeadline(time.Now().Add(e.writeTimeout))
		}
		wrote, err := e.ResponseWriter.Write(part)
		if n += wrote; err != nil || n == len(p) {
			return n, err
		}
	}
}

// Unwrap is what [http.ResponseController] asks for.
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// restTimeout is how long the answer to a request waits for the rest of a body that
// was not read: long enough for a client that is sending, which might lose the
// answer if the connection was closed under it, and no longer for one that has
// stopped.
const restTimeout = time.Second

// end gives the body's bytes back. What was not read of it the server reads, before
// it answers, to use the connection again.
func (e *exchange) end() {
	if e.body.ReadCloser == nil {
		return
	}
	e.body.Release()
	if e.unread {
		_ = http.NewResponseController(e.ResponseWriter).SetReadDeadline(time.Now().Add(min(restTimeout, e.bodyTimeout)))
	}
}

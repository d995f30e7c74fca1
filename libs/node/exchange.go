package node

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/node/config"
)

// exchange is one request and its answer. It is the body that handlers read: the bytes
// are counted, and the time between two of them is bounded. It is also the writer of the
// answer: a client that takes no bytes for too long is disconnected, while a slow one is
// not.
type exchange struct {
	http.ResponseWriter
	body         bounded.Body
	whole        time.Time // deadline for the whole request
	bodyTimeout  time.Duration
	writeTimeout time.Duration
	unread       bool // there is a body, and its end was not reached
	chunked      bool // the request is the last one of its connection
	written      int
}

// piece is the size of the parts of an answer that are written at a time: a client must take that
// much within service.write_timeout. Shorter answers have the time of their request.
const piece = 16 << 10

func newExchange(w http.ResponseWriter, r *http.Request, config *config.Config, budget *bounded.Budget) *exchange {
	e := &exchange{ResponseWriter: w, bodyTimeout: config.BodyTimeout, writeTimeout: config.WriteTimeout}
	if r.Body == nil || r.Body == http.NoBody {
		return e
	}
	e.chunked = len(r.TransferEncoding) > 0
	e.whole, e.unread = time.Now().Add(config.ReadTimeout), true
	body := r.Body
	// The server itself limits a body to its announced length.
	if most := int64(config.MaxBody); r.ContentLength < 0 || r.ContentLength > most {
		body = http.MaxBytesReader(w, body, most)
	}
	e.body = budget.Body(body)
	r.Body = e
	return e
}

// Read reads the request's body.
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
		_ = control.SetReadDeadline(e.whole) // the server reads on to notice a disconnect
	}
	return n, err
}

// Take counts the bytes that a compressed body expands to.
func (e *exchange) Take(n int64) bool { return e.body.Take(n) }

// TakeDecoded counts the bytes that the body is decoded to.
func (e *exchange) TakeDecoded(n int64) bool { return e.body.TakeDecoded(n) }

// Grow counts the buffer that the body is read into.
func (e *exchange) Grow(from, to int64) bool { return e.body.Grow(from, to) }

// Close closes the request's body.
func (e *exchange) Close() error { return e.body.Close() }

// Write writes the answer.
func (e *exchange) Write(p []byte) (n int, err error) {
	if e.written == 0 && e.chunked && !e.unread {
		e.Header().Set("Connection", "close")
	}
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

// WriteHeader tells the client of a chunked request that its connection ends. If the body has not been read, the
// server itself closes the connection or reads the rest, and would do neither with that header set.
func (e *exchange) WriteHeader(status int) {
	e.Header()["Cache-Control"] = noStore // a file server removes it from its errors
	if e.chunked && !e.unread {
		e.Header().Set("Connection", "close")
	}
	e.ResponseWriter.WriteHeader(status)
}

// Unwrap implements the method that [http.ResponseController] looks for.
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// restTimeout bounds the wait of the answer to a request for the unread rest of its body. A client
// that is still sending could lose the answer if the connection was closed; for one that has
// stopped there is no reason to wait longer.
const restTimeout = time.Second

// end returns the body's bytes to the budget. Before it answers, the server reads the
// unread rest of the body, so that it can reuse the connection.
func (e *exchange) end() {
	if e.body.ReadCloser == nil {
		return
	}
	e.body.Release()
	if e.unread {
		_ = http.NewResponseController(e.ResponseWriter).SetReadDeadline(time.Now().Add(min(restTimeout, e.bodyTimeout)))
	}
}

package bounded

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/roost-cluster/roost/libs/errornumber"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Handler checks the requests of Twirp services before next reads them; others pass.
// A request with Content-Encoding gzip is expanded. Requests are refused with a Twirp
// error: 413 if they exceed a limit, 429 if a [Budget] is used up, 408 if the body does
// not arrive in time, 400 if it cannot be read.
func (l Limits) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := methodAt(r.URL.Path)
		if method == nil || r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		b, err := l.read(r)
		var decoded int
		if err == nil {
			decoded, err = l.checkAs(r.Header, b, method.Input())
		}
		// A message is larger than its body: bodies that fit together can be too large when they are decoded.
		if t, counts := r.Body.(taker); err == nil && counts && !t.TakeDecoded(int64(decoded)) {
			err = ErrFull
		}
		if err == nil && l.KnownFields && media(r.Header) == "application/json" {
			err = checkFields(b, method.Input())
		}
		var long *http.MaxBytesError
		switch {
		case errors.Is(err, ErrTooLarge) || errors.As(err, &long):
			Refuse(w, http.StatusRequestEntityTooLarge, "invalid_argument", errornumber.TooLong, err.Error())
		case errors.Is(err, ErrFull):
			w.Header().Set("Retry-After", "1")
			Refuse(w, http.StatusTooManyRequests, "resource_exhausted", errornumber.Overloaded, err.Error())
		case errors.Is(err, os.ErrDeadlineExceeded):
			Refuse(w, http.StatusRequestTimeout, "deadline_exceeded", errornumber.TooLate, "the body did not arrive in time")
		case err != nil:
			Refuse(w, http.StatusBadRequest, "malformed", errornumber.InvalidRequest, err.Error())
		default:
			whole := r.WithContext(r.Context())
			whole.Header = r.Header.Clone()
			whole.Header.Del("Content-Encoding")
			whole.Body, whole.ContentLength = newBody(b), int64(len(b))
			next.ServeHTTP(w, whole)
		}
	})
}

// methodAt returns the method of a Twirp service by its path, nil if this process
// does not know it.
func methodAt(p string) protoreflect.MethodDescriptor {
	service, method := path.Split(p)
	name := protoreflect.FullName(path.Base(service) + "." + method)
	if !name.IsValid() {
		return nil
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil
	}
	m, _ := d.(protoreflect.MethodDescriptor)
	return m
}

// media returns the media type of a body, as Twirp reads it.
func media(h http.Header) string {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.TrimSpace(strings.ToLower(media))
}

// What Twirp copies of a body before it decodes it, in multiples of its length: a buffer that grows, and for JSON
// also the text that it reads from the buffer.
const (
	protobufCopies = 2
	jsonCopies     = 3
)

// checkAs checks a body according to its Content-Type. It returns the memory that decoding takes, in bytes.
func (l Limits) checkAs(h http.Header, b []byte, kind protoreflect.MessageDescriptor) (int, error) {
	switch media(h) {
	case "application/protobuf":
		n, err := l.check(b, kind)
		return n + protobufCopies*len(b), err
	case "application/json":
		n, err := l.checkJSON(b, kind)
		return n + jsonCopies*len(b), err
	}
	return 0, nil // Twirp refuses it
}

// checkJSON counts the characters that may begin a message or an element. Decoding
// JSON takes more memory than decoding protobuf, but its elements are longer.
func (l Limits) checkJSON(b []byte, kind protoreflect.MessageDescriptor) (int, error) {
	left := l.budget(len(b)) - 4*len(b)
	widest, list, most := shapeOf(kind).widest, protoreflect.FullName(""), 0
	for _, f := range shapeOf(kind).lists {
		if n, limited := l.Lists[f.name]; limited && f.below != nil && (list == "" || n < most) {
			list, most = f.name, n
		}
	}
	quoted, depth, found := false, 0, 0
	for i := 0; i < len(b) && left >= 0; i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '}' || c == ']':
			depth--
		case c == '{':
			// An element of a list is inside the list, which is inside the outermost message.
			if depth == 2 && list != "" {
				if found++; found > most {
					return 0, fmt.Errorf("%w: %s has more than %d elements: send it in parts", ErrTooLarge, list, most)
				}
			}
			depth++
			left -= widest
		case c == '[':
			depth++
			left -= slice
		case c == ',':
			left -= slice
		}
	}
	if left < 0 {
		return 0, fmt.Errorf("%s of %d bytes: %w", kind.FullName(), len(b), errDense)
	}
	return l.budget(len(b)) - left, nil
}

// read reads and expands the body of a request. It determines the expanded length
// first, without keeping the data: a body that expands too far takes no memory.
func (l Limits) read(r *http.Request) ([]byte, error) {
	if read, ok := r.Body.(*body); ok && int64(len(read.whole)) <= l.Body {
		return read.whole, nil // another Handler has read it already
	}
	b, err := ReadAll(r.Body, r.ContentLength, l.Body)
	encoding := r.Header.Get("Content-Encoding")
	if err != nil || encoding == "" || encoding == "identity" {
		return b, err
	}
	if encoding != "gzip" {
		return nil, fmt.Errorf("Content-Encoding %.20q is not supported: send gzip or none", encoding)
	}
	unzip, err := gzip.NewReader(bytes.NewReader(b))
	var n int64
	if err == nil {
		n, err = io.Copy(io.Discard, io.LimitReader(unzip, l.Body+1))
	}
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	if n > l.Body {
		return nil, fmt.Errorf("%w: %d bytes expand to more than %d", ErrTooLarge, len(b), l.Body)
	}
	if t, ok := r.Body.(taker); ok && !t.Take(n) {
		return nil, ErrFull
	}
	if err := unzip.Reset(bytes.NewReader(b)); err != nil {
		return nil, err
	}
	whole := make([]byte, n)
	_, err = io.ReadFull(unzip, whole)
	return whole, err
}

// body is a request body that was read completely.
type body struct {
	bytes.Reader
	whole []byte
}

func newBody(b []byte) *body { return &body{*bytes.NewReader(b), b} }

// Close implements [io.Closer].
func (*body) Close() error { return nil }

// Refuse answers a request that had no effect with an error in Twirp's format.
func Refuse(w http.ResponseWriter, status int, code string, number errornumber.Number, message string) {
	text, _ := json.Marshal(struct { // strings always marshal
		Code string            `json:"code"`
		Msg  string            `json:"msg"`
		Meta map[string]string `json:"meta"`
	}{code, message, map[string]string{"outcome": sharding.NotApplied.String(), "error": string(number)}})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// Transport checks the responses of Twirp services before the caller reads them, and
// bounds the length of all others. A response that exceeds a limit is an error of the
// request, which wraps [ErrTooLarge].
func (l Limits) Transport(next http.RoundTripper) http.RoundTripper { return &transport{l, next} }

type transport struct {
	limits Limits
	next   http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(r)
	if err != nil || res.StatusCode == http.StatusSwitchingProtocols {
		return res, err
	}
	method := methodAt(r.URL.Path)
	if method == nil || res.StatusCode != http.StatusOK {
		res.Body = &limited{res.Body, t.limits.Body}
		return res, nil
	}
	b, err := ReadAll(res.Body, res.ContentLength, t.limits.Body)
	_ = res.Body.Close()
	if err == nil {
		_, err = t.limits.checkAs(res.Header, b, method.Output())
	}
	if err != nil {
		return nil, fmt.Errorf("answer of %s: %w", r.URL.Host, err)
	}
	res.Body, res.ContentLength = newBody(b), int64(len(b))
	return res, nil
}

// CloseIdleConnections implements the method that [http.Client] looks for.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// limited is a body that fails beyond its limit.
type limited struct {
	io.ReadCloser
	remaining int64
}

func (b *limited) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.remaining -= int64(n); b.remaining < 0 {
		return 0, fmt.Errorf("%w: the answer is too long", ErrTooLarge)
	}
	return n, err
}

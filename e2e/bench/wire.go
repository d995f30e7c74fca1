package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// browser is one HTTP/1.1 connection that is kept open: just enough of a client
// that the servers, not the client, are what is measured.
type browser struct {
	nc  net.Conn
	br  *bufio.Reader
	out []byte
	in  []byte
	// timing is memory for the header of that kind.
	timing []byte
}

func browse(addr string) (*browser, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &browser{nc: nc, br: bufio.NewReader(nc)}, nil
}

func (b *browser) close() { _ = b.nc.Close() }

// post sends a request and returns the body of its answer, which is valid until
// the next call. Every status but 200 is an error.
func (b *browser) post(path []string, contentType string, body []byte) ([]byte, error) {
	a, err := b.request(path, contentType, "", body)
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("%d: %s", a.status, a.body)
	}
	return a.body, err
}

// reply is what a server answered. It is valid until the next request.
type reply struct {
	status int
	body   []byte
	timing []byte // the header Server-Timing
}

// request sends a request with further header lines and reads its answer.
func (b *browser) request(path []string, contentType, header string, body []byte) (reply, error) {
	b.out = append(b.out[:0], "POST "...)
	for _, p := range path {
		b.out = append(b.out, p...)
	}
	b.out = append(b.out, " HTTP/1.1\r\nHost: localhost\r\nContent-Type: "...)
	b.out = append(b.out, contentType...)
	b.out = append(b.out, "\r\nContent-Length: "...)
	b.out = strconv.AppendInt(b.out, int64(len(body)), 10)
	b.out = append(b.out, "\r\n"...)
	b.out = append(b.out, header...)
	b.out = append(b.out, "\r\n"...)
	b.out = append(b.out, body...)
	if _, err := b.nc.Write(b.out); err != nil {
		return reply{}, err
	}
	return b.read()
}

func (b *browser) read() (a reply, err error) {
	line, err := b.br.ReadSlice('\n')
	if err != nil {
		return a, err
	}
	status, _ := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if a.status, err = strconv.Atoi(string(status[:min(3, len(status))])); err != nil {
		return a, fmt.Errorf("answer %q: %w", line, err)
	}
	length := -1
	for {
		if line, err = b.br.ReadSlice('\n'); err != nil {
			return a, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			length, err = strconv.Atoi(string(value))
		case bytes.EqualFold(name, []byte("Server-Timing")):
			b.timing = append(b.timing[:0], value...)
			a.timing = b.timing
		}
		if err != nil {
			return a, err
		}
	}
	if length < 0 {
		return a, fmt.Errorf("answer %d without a length", a.status)
	}
	if cap(b.in) < length {
		b.in = make([]byte, length)
	}
	a.body = b.in[:length]
	_, err = io.ReadFull(b.br, a.body)
	return a, err
}

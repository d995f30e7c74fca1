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

// httpConn is one HTTP/1.1 connection that is kept open: so small a client that the
// servers are measured, not the client.
type httpConn struct {
	nc  net.Conn
	br  *bufio.Reader
	out []byte
	in  []byte
	// timing is the buffer of the header Server-Timing.
	timing []byte
}

func dialHTTP(addr string) (*httpConn, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &httpConn{nc: nc, br: bufio.NewReader(nc)}, nil
}

func (c *httpConn) close() { _ = c.nc.Close() }

// post sends a request and returns the body of its answer, which is valid until
// the next call. Every status but 200 is an error.
func (c *httpConn) post(path []string, contentType string, body []byte) ([]byte, error) {
	a, err := c.request(path, contentType, "", body)
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("%d: %s", a.status, a.body)
	}
	return a.body, err
}

// reply is the answer of a server. It is valid until the next request.
type reply struct {
	status int
	body   []byte
	timing []byte // the header Server-Timing
}

// request sends a request with further header lines and reads its answer.
func (c *httpConn) request(path []string, contentType, header string, body []byte) (reply, error) {
	c.out = append(c.out[:0], "POST "...)
	for _, p := range path {
		c.out = append(c.out, p...)
	}
	c.out = append(c.out, " HTTP/1.1\r\nHost: localhost\r\nContent-Type: "...)
	c.out = append(c.out, contentType...)
	c.out = append(c.out, "\r\nContent-Length: "...)
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	c.out = append(c.out, "\r\n"...)
	c.out = append(c.out, header...)
	c.out = append(c.out, "\r\n"...)
	c.out = append(c.out, body...)
	if _, err := c.nc.Write(c.out); err != nil {
		return reply{}, err
	}
	return c.read()
}

func (c *httpConn) read() (a reply, err error) {
	line, err := c.br.ReadSlice('\n')
	if err != nil {
		return a, err
	}
	status, _ := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if a.status, err = strconv.Atoi(string(status[:min(3, len(status))])); err != nil {
		return a, fmt.Errorf("answer %q: %w", line, err)
	}
	length := -1
	for {
		if line, err = c.br.ReadSlice('\n'); err != nil {
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
			c.timing = append(c.timing[:0], value...)
			a.timing = c.timing
		}
		if err != nil {
			return a, err
		}
	}
	if length < 0 {
		return a, fmt.Errorf("answer %d without a length", a.status)
	}
	if cap(c.in) < length {
		c.in = make([]byte, length)
	}
	a.body = c.in[:length]
	_, err = io.ReadFull(c.br, a.body)
	return a, err
}

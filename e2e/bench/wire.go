package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
)

// browser is one HTTP/1.1 connection that is kept open: just enough of a client
// that the servers, not the client, are what is measured.
type browser struct {
	nc  net.Conn
	br  *bufio.Reader
	out []byte
	in  []byte
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
	b.out = append(b.out[:0], "POST "...)
	for _, p := range path {
		b.out = append(b.out, p...)
	}
	b.out = append(b.out, " HTTP/1.1\r\nHost: bench\r\nContent-Type: "...)
	b.out = append(b.out, contentType...)
	b.out = append(b.out, "\r\nContent-Length: "...)
	b.out = strconv.AppendInt(b.out, int64(len(body)), 10)
	b.out = append(b.out, "\r\n\r\n"...)
	b.out = append(b.out, body...)
	if _, err := b.nc.Write(b.out); err != nil {
		return nil, err
	}
	status, err := b.br.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	ok := bytes.HasPrefix(status, []byte("HTTP/1.1 200 "))
	first := ""
	if !ok {
		first = string(bytes.TrimSpace(status))
	}
	length := -1
	for {
		line, err := b.br.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		if name, value, found := bytes.Cut(line, []byte(": ")); found && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return nil, err
			}
		}
	}
	if length < 0 {
		return nil, fmt.Errorf("answer without a length: %s", first)
	}
	if cap(b.in) < length {
		b.in = make([]byte, length)
	}
	b.in = b.in[:length]
	if _, err := io.ReadFull(b.br, b.in); err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%s: %s", first, b.in)
	}
	return b.in, nil
}

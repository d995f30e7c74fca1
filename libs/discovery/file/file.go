// Package file is discovery by a text file: one "host:port" or
// "role@host:port" per line; blank lines and what follows a # are ignored. The
// file is read at every lookup, so a change takes effect at the next one. Replace
// it by renaming another file over it, so that it is never read half written.
//
// # What this does not do
//
// It does not guess: an invalid line fails the whole lookup, and so does a missing file.
// An empty file means that there are no peers.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/roost-cluster/roost/libs/discovery"
)

func init() { discovery.Backends.Register(discovery.Text(Open), "file") }

// maxBytes is the largest file that is read: about ten thousand peers.
const maxBytes = 1 << 20

// Backend is a file with peers.
type Backend struct{ path string }

// Open returns a Backend for the file at path, which need not exist yet. Errors wrap
// discovery.ErrConfig.
func Open(path string) (*Backend, error) {
	if path == "" {
		return nil, fmt.Errorf("%w: the path of the file is empty", discovery.ErrConfig)
	}
	return &Backend{path: path}, nil
}

// Close does nothing.
func (d *Backend) Close() error { return nil }

// Peers reads the file.
func (d *Backend) Peers(ctx context.Context) ([]discovery.Peer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	text, err := read(d.path)
	if err != nil {
		return nil, err
	}
	var peers []discovery.Peer
	line := 0
	for s := range strings.Lines(text) {
		line++
		s, _, _ = strings.Cut(s, "#")
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		p, err := discovery.ParsePeer(s)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", d.path, line, err)
		}
		peers = append(peers, p)
	}
	return peers, nil
}

func read(path string) (_ string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path) // a pipe would block
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxBytes {
		return "", fmt.Errorf("%s has more than %d bytes", path, maxBytes)
	}
	return string(text), nil
}

// Package watchfile follows small files, such as keys and rules, that operators replace while a process
// runs.
//
// # What this does not do
//
// It has no goroutine: a file is checked when its content is requested.
package watchfile

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// lookEvery is the shortest time between two checks of a file.
const lookEvery = time.Second

// maxFile is the longest file that is read, in bytes.
const maxFile = 4 << 20

// File is a file whose parsed content is replaced when the file changes. If the new content
// is unusable, the old one stays, and bad is called. It is safe for concurrent use.
//
// The content is compared, not the time stamp or size: a file can be replaced by another one with
// the same of both, as copies keep time stamps, and the keys that it no longer has must not stay valid.
type File[T any] struct {
	key, path string
	parse     func([]byte) (T, error)
	bad       func(error)

	mu      sync.Mutex
	looked  time.Time
	parsed  [sha256.Size]byte // hash of the text that was parsed last; zero: none
	failure error             // of that
	content T
	said    string // the last error that bad was called with, so that it is not repeated
}

// Open reads a file for the first time. key is the key of the configuration that names it, for errors.
func Open[T any](key, path string, bad func(error), parse func([]byte) (T, error)) (*File[T], error) {
	w := &File[T]{key: key, path: path, parse: parse, bad: bad}
	return w, w.read()
}

// read reads the file, and parses it if it has changed. An error of reading is not remembered: the next call tries again.
func (w *File[T]) read() error {
	text, err := Read(w.path)
	if err != nil {
		return fmt.Errorf("%s: %w", w.key, err)
	}
	if hash := sha256.Sum256(text); hash != w.parsed {
		w.parsed, w.failure = hash, nil
		content, err := w.parse(text)
		if err != nil {
			w.failure = fmt.Errorf("%s %s: %w", w.key, w.path, err)
		} else {
			w.content = content
		}
	}
	return w.failure
}

// Read returns the content of a small regular file. A pipe is refused, because it would block the caller.
func Read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxFile)
	}
	return text, err
}

// Get returns the content as the file is now.
func (w *File[T]) Get(now time.Time) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.looked) >= lookEvery || now.Before(w.looked) {
		w.looked = now
		said := ""
		if err := w.read(); err != nil {
			if said = err.Error(); said != w.said {
				w.bad(err)
			}
		}
		w.said = said
	}
	return w.content
}

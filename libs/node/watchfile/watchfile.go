// Package watchfile follows small files, such as keys and rules, that operators replace while a process
// runs.
//
// # What this does not do
//
// It has no goroutine: a file is looked at when its content is asked for.
package watchfile

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// lookEvery is how often a file is looked at, at most.
const lookEvery = time.Second

// maxFile is the longest file that is read, in bytes.
const maxFile = 4 << 20

// File is a file whose parsed content is replaced when the file changes. If the new content
// is unusable, the old one stays, and bad is called. It is safe for concurrent use.
type File[T any] struct {
	key, path string
	parse     func([]byte) (T, error)
	bad       func(error)

	mu       sync.Mutex
	looked   time.Time
	modified time.Time
	size     int64
	content  T
	said     string // the last error that bad was called with, so that it is not repeated
}

// Open reads a file for the first time. key is the key of the configuration that names it, for errors.
func Open[T any](key, path string, bad func(error), parse func([]byte) (T, error)) (*File[T], error) {
	w := &File[T]{key: key, path: path, parse: parse, bad: bad}
	return w, w.read()
}

// read reads the file if it has changed.
func (w *File[T]) read() error {
	info, err := os.Stat(w.path)
	if err != nil {
		return fmt.Errorf("%s: %w", w.key, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %s is not a regular file", w.key, w.path) // a pipe would block those who ask for the content
	}
	if info.ModTime().Equal(w.modified) && info.Size() == w.size {
		return nil
	}
	w.modified, w.size = info.ModTime(), info.Size()
	file, err := os.Open(w.path)
	if err != nil {
		return fmt.Errorf("%s: %w", w.key, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("the file is longer than %d bytes", maxFile)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", w.key, w.path, err)
	}
	content, err := w.parse(text)
	if err != nil {
		return fmt.Errorf("%s %s: %w", w.key, w.path, err)
	}
	w.content, w.said = content, ""
	return nil
}

// Get returns the content as the file is now.
func (w *File[T]) Get(now time.Time) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.looked) >= lookEvery || now.Before(w.looked) {
		w.looked = now
		err := w.read()
		if err != nil && err.Error() != w.said {
			w.said = err.Error()
			w.bad(err)
		}
	}
	return w.content
}

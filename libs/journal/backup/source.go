package backup

import (
	"context"
	"errors"
	"io"
)

// Source is a database as it was at one moment, and writes the backup of it.
type Source interface {
	Header() Header
	// Size is about how many bytes there are.
	Size() int64
	// WriteParts writes the parts. It calls progress with how many bytes were written.
	WriteParts(ctx context.Context, w *Writer, progress func(done int64)) error
	Close() error
}

// Write writes the backup of a journal: its databases in their order, with their numbers in the headers.
// progress is called periodically with the bytes done and an estimate of the total.
func Write(ctx context.Context, out io.Writer, sources []Source, progress func(done, total int64)) ([]Header, error) {
	var headers []Header
	var total, before int64
	for _, s := range sources {
		h := s.Header()
		h.Databases = len(sources)
		headers = append(headers, h)
		total += s.Size()
	}
	w, err := NewWriter(out, headers[0])
	if err != nil {
		return nil, err
	}
	for i, s := range sources {
		if i > 0 {
			if err := w.Database(headers[i]); err != nil {
				return nil, err
			}
		}
		last := int64(0)
		err := s.WriteParts(ctx, w, func(done int64) {
			last = done
			progress(before+done, max(before+done, total))
		})
		if err != nil {
			return nil, err
		}
		before += last
	}
	return headers, w.Close()
}

// Numbered is a source with a number in its header.
func Numbered(s Source, number int) Source { return numbered{s, number} }

type numbered struct {
	Source
	number int
}

// Header implements [Source].
func (n numbered) Header() Header {
	h := n.Source.Header()
	h.Number = n.number
	return h
}

// WriteOne writes the backup of one database, and closes it.
func WriteOne(ctx context.Context, out io.Writer, s Source, progress func(done, total int64)) (h Header, err error) {
	headers, err := Write(ctx, out, []Source{s}, progress)
	if err = errors.Join(err, s.Close()); err == nil {
		h = headers[0]
	}
	return h, err
}

package backup

import (
	"errors"
	"io"
)

// Check reads a whole file, and returns its header and how many bytes it has, without what surrounds
// its chunks. Errors are those of [NewReader].
func Check(in io.Reader) (Header, int64, error) {
	r, err := NewReader(in)
	if err != nil {
		return Header{}, 0, err
	}
	err = Rest(r)
	return r.header, r.bytes, err
}

// Rest reads what is left of a file, and returns nil if it is complete.
func Rest(r *Reader) error {
	for {
		if _, err := r.Next(); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
	}
}

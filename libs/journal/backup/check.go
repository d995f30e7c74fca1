package backup

import (
	"errors"
	"fmt"
	"io"
)

// Check reads a whole file. It returns the headers of its databases and the number of bytes that its chunks carry. It
// returns the errors of [NewReader].
func Check(in io.Reader) ([]Header, int64, error) {
	r, err := NewReader(in)
	if err != nil {
		return nil, 0, err
	}
	all := []Header{r.header}
	for {
		if err := Rest(r); err != nil {
			return all, r.bytes, err
		}
		if err := r.Database(); err != nil {
			if errors.Is(err, io.EOF) {
				err = r.checkAll(all)
			}
			return all, r.bytes, err
		}
		all = append(all, r.header)
	}
}

// checkAll returns an error if the file has more or fewer databases than it says.
func (r *Reader) checkAll(all []Header) error {
	if want := max(all[0].Databases, 1); len(all) != want {
		return fmt.Errorf("%w: it has %d databases, and says %d", ErrDamaged, len(all), want)
	}
	return nil
}

// Rest reads the rest of a database, and returns nil if it is complete.
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

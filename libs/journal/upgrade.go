package journal

import "fmt"

// Expansion returns the facts of a journal whose schema is expanded to [Format], and whether
// that changes anything. It shuts no process out. The error wraps ErrIdentity.
func (f Facts) Expansion() (Facts, bool, error) {
	expanded := f
	expanded.Format = max(f.Format, Format)
	if f.Format == 0 { // it stays 0, which Check explains
		expanded.Format = 0
	}
	if err := expanded.Check(); err != nil {
		return f, false, err
	}
	return expanded, expanded.Format != f.Format, nil
}

// Activation returns the facts of a journal that programs below a format can no longer
// use, and whether that changes anything. It is refused before the schema was expanded to
// that format; the error wraps ErrIdentity.
func (f Facts) Activation(format int) (Facts, bool, error) {
	if f.Format < format {
		return f, false, fmt.Errorf("%w: its schema has format %d, and cannot be activated for format %d; run \"roost journal upgrade\" first, then bring all processes to this release", ErrIdentity, f.Format, format)
	}
	changed := f.MinReader < format || f.MinWriter < format
	f.MinReader, f.MinWriter = max(f.MinReader, format), max(f.MinWriter, format)
	return f, changed, nil
}

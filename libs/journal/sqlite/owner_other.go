//go:build !unix

package sqlite

// makeShared does nothing where files have no owner that could keep others out.
func makeShared(string) error { return nil }

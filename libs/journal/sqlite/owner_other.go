//go:build !unix

package sqlite

// makeShared does nothing where files have no owner that could keep others out.
func makeShared(string) error { return nil }

// ownLike does nothing there either.
func ownLike(string, string) error { return nil }

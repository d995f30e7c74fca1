//go:build !unix

package cluster

// Lock does nothing where files cannot be claimed for the life of a process.
func Lock(string) (unlock func(), err error) { return func() {}, nil }

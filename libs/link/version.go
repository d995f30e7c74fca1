//go:build !nextformat

package link

// MaxVersion is the highest frame version that this package supports.
const MaxVersion = 1

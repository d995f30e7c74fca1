//go:build !nextformat

package journal

// Format is the version of the stored format that this package reads and writes: see
// docs/running/upgrading.md.
const Format = 1

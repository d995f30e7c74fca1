//go:build nextformat

package journal

// Format is the format of a release that does not exist. Its programs are built for tests of
// upgrades: see next.go of the backends.
const Format = 2

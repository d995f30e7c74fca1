//go:build nextformat

package journal

// Format is that of a release which does not exist. Its programs are built for tests of upgrades: see
// next.go of the drivers.
const Format = 2

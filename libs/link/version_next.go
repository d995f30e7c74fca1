//go:build nextformat

package link

// MaxVersion is that of a release which does not exist. Its programs are built for tests of upgrades. Its frames are
// those of version 1.
const MaxVersion = 2

//go:build nextformat

package link

// MaxVersion is the version of a release that does not exist. Its programs are built for tests of upgrades. Its
// frames are the same as in version 1.
const MaxVersion = 2

// Package journaltest is the conformance suite of journal drivers: what
// [journal.Driver] demands. A driver's own test calls [Run].
//
// # What this does not do
//
// It cannot cut the power. That a commit is on the disk when it is reported must be
// tested by the driver's own tests.
package journaltest

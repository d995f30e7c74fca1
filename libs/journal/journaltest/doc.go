// Package journaltest is the conformance suite of journal backends: what
// [journal.Backend] demands. A backend's own test calls [Run].
//
// # What this does not do
//
// It cannot cut the power. That a commit is on the disk when it is reported must be
// tested by the backend's own tests.
package journaltest

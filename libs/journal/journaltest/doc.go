// Package journaltest is the conformance suite of journal backends. A
// backend's own test calls [Run].
//
// # What this does not do
//
// It cannot cut the power. That a commit is on the disk when it is reported is
// for the backend's own tests.
package journaltest

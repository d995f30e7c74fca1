// Package journaltest is the proof that a journal backend keeps the law. A
// backend's own test calls [Run].
//
// # What this does not do
//
// It cannot cut the power. That a commit is on the disk when it is reported is
// for the backend's own tests.
package journaltest

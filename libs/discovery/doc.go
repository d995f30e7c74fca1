// Package discovery answers one question: where may my peers be? The answer is
// a list of addresses to try, nothing more.
//
// A backend is a [Backend] with a single method, and as dumb as possible.
// [Watch] is the portable type around it: it asks again and again, with
// back-off and jitter, sorts the answer and removes duplicates, keeps the last
// good one while the backend fails, tells changes, and gives every answer
// with its age. A backend that notices changes is a [Follower]; the Watch waits
// for them then instead of asking at intervals. Where processes enter themselves
// the backend is a [Registrar], and a [Registration] keeps the entry. Backends are
// opened by URL in package open, and proven by discoverytest.
//
// # What this does not do
//
// A peer that is listed may be dead, and one that lives may be missing:
// membership decides who is there. It does not resolve names.
package discovery

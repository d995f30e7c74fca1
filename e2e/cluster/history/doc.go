// Package history checks the histories of clients of lists. A list grows by Add and is read
// by Get. Both return its length and a hash of its values, so that an answer identifies the
// whole state it came from. Given every operation with
// its call, its return and its outcome, and the final lists, [Check] finds violations:
//
//   - an acknowledged value that is not where its answer said (lost);
//   - a value that is in a list twice, or that nobody added (double, invented);
//   - a value whose command was refused (a false refusal);
//   - another answer to a repeated idempotency key than the first one;
//   - values of one batch out of order;
//   - answers that are not explained by any order of the operations that respects
//     real time (not linearizable), by github.com/anishathalye/porcupine.
//
// [CheckStored] compares the same operations with the records of the journal
// itself, which [Decode] reads by its documented form alone: every
// acknowledged value is stored at its place under its key, no refused value is stored,
// and epochs never decrease along a list's records.
//
// # What this does not do
//
// It uses no code of the system under test, and knows nothing of processes,
// networks and clocks: times are durations since the start of the history, all
// of one monotonic clock. It does not check durations; see [Longest].
package history

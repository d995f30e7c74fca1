// Package history judges what clients of a list have seen. A list grows by Add
// and is read by Get; both tell its length and a hash of everything in it, so
// that an answer names the whole state it came from. Given every operation with
// its call, its return and its outcome, and the lists as they were in the end,
// [Check] finds what must not be:
//
//   - an acknowledged value that is not where its answer said (lost);
//   - a value that is there twice, or that nobody added (double, invented);
//   - a value whose command was refused (a refusal that was none);
//   - another answer to a repeated idempotency key than the first one;
//   - values of one batch out of their order;
//   - answers that no order of the operations explains which respects real
//     time (not linearizable), by github.com/anishathalye/porcupine.
//
// [CheckStored] compares the same operations with the records of the journal
// itself, which [Decode] reads by its documented form alone: every value
// acknowledged is at its place on the disk, under its key, none that was refused
// is, and epochs never fall along a list's records.
//
// # What this does not do
//
// It uses no code of the system that it judges, and knows nothing of processes,
// networks and clocks: times are durations since the start of the history, all
// of one monotonic clock. It does not judge how long things took; see [Longest].
package history

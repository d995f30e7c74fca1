// Package history checks what clients have seen of entities. Each entity here is a list: Add
// appends a value to it, Get reads it. Both return the length of the list and a hash of its
// values, so that an answer identifies the whole state that it came from. Given every
// operation with its call, its return and its outcome, and the final lists, [Check] finds
// violations:
//
//   - an acknowledged value that is not where its answer said (lost);
//   - a value that is in a list twice, or that no client added (double, invented);
//   - a value that is in a list although its command was refused (a false refusal);
//   - a repeated idempotency key that got another answer than the first time;
//   - values of one batch that are in a list in another order than in the batch;
//   - answers that are not explained by any order of the operations that respects
//     real time (not linearizable), by github.com/anishathalye/porcupine.
//
// [CheckStored] compares the same operations with the records of the journal itself. [Decode] reads
// these records by their documented form alone, without code of Roost. Every acknowledged value is stored at its place
// under its key, no refused value is stored, and epochs never decrease along a list's records.
//
// # What this does not do
//
// It uses no code of the system under test, and knows nothing of processes,
// networks and clocks: times are durations since the start of the history, all
// of one monotonic clock. It does not check durations; see [Longest].
package history

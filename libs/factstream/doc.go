// Package factstream has the rules for finding and repairing damaged facts of the coordinators. Facts are
// damaged if records of the fact stream cannot be read or are missing, or if facts contradict each other.
// No coordinator becomes active with unreadable facts, because it would not know the forgotten ones.
//
// [Examine] finds the damage. [Examination.Repair] returns the facts of the stream that replaces the
// damaged one. The caller claims the stream at a term above all that were used, and stores these facts
// after the damaged ones. Then it stores a mark that makes reading begin after the damaged ones. So a
// repair does the same as a coordinator that takes over and stores a checkpoint, and it has the same
// protection: a coordinator that was active before is fenced.
//
// # What remains
//
// The order of facts matters only among facts about the same thing, where the newest counts. If a fact is
// lost, this follows:
//
//   - The row of a shard may be older than what regions and gateways have heard of it. So if any row may be lost, all
//     shards are given out anew. The new rows have no owner, and an epoch of the repair's term, so they are newer than
//     all other rows. The successor in a row is the last known owner, so the shard goes back there if that region is
//     still a member. When the shard is claimed again, the fence of the journal shuts out every other owner.
//   - More forms may be stored in a shard than its row says. So the new row has all known forms of its type.
//   - Requests of operators are in effect as the remaining facts say. A request that was made or ended in a lost fact
//     must be made again.
//   - The declaration of a type (its number of shards, shard rule and forms) may be lost. The journal has the number of
//     shards as well, but not the rest. So a repair drops such a type only if the operator names it.
//
// If no record is lost, a fact that contradicts others is dropped, and only the shard that it is about is given out
// anew.
//
// A repair is recorded as a fact itself, [Repaired], which later coordinators keep.
package factstream

// Package factstream has the rules by which the coordinators' facts are checked and repaired. It is for
// facts that are damaged: records of the fact stream that cannot be read or are missing, and facts that
// contradict others. A coordinator does not serve with such facts, because it would not know what it has
// forgotten.
//
// [Examine] finds what is damaged. [Examination.Repair] returns the facts of the stream that takes its
// place. Whoever repairs has claimed the stream at a term above all that were used, and stores these facts
// behind the damaged ones; then a snapshot says that reading begins behind the damaged ones. So a repair
// is what a coordinator does when it takes over and stores a checkpoint, and the same guards apply to it:
// a coordinator that was active before is fenced.
//
// # What remains
//
// The order of the facts matters only among those about the same thing, of which the newest counts. So a
// fact that is lost has these consequences:
//
//   - The row of a shard may be older than what regions and gateways have heard of it. So if a row may
//     be lost, all shards are given out anew: each row has no owner, and an epoch of the repair's term, so
//     that it is newer than any other row of the shard. Its successor is the last known owner, so that the
//     shard goes back there if that region is still a member. The fence of the journal shuts out every
//     other owner when the shard is claimed again.
//   - The forms in which something may be stored in a shard may be more than its row says. So such a row
//     has all forms of its type that are known.
//   - What operators have asked for is as the remaining facts say. What was asked for, or ended, in a lost
//     fact, must be asked for again.
//   - The declaration of a type (its number of shards, its shard rule, its forms) may be lost. The number of shards is in
//     the journal, too. The shard rule and the forms are not: a repair drops such a type only if it is named.
//
// If no record is lost, a fact that contradicts others is dropped, and only the shard that it is about is
// given out anew.
//
// What a repair has done is a fact itself, [Repaired], which later coordinators keep. Earlier releases keep it as
// they keep all facts that they do not know.
package factstream

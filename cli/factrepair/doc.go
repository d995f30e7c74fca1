// Package factrepair checks and repairs the coordinators' facts in a journal. The rules are in libs/factstream; this
// package reads the facts, and stores what remains of them.
//
// A repair takes the place of the active coordinator, as another coordinator does:
//
//  1. It watches the journal heartbeat. If that goes on, a coordinator is active, and the repair is refused.
//  2. It claims the fact stream, at a term above all that were used. From then on, a coordinator
//     that was paused, or could not reach the journal, can store nothing: it is fenced. If another one has claimed the stream since
//     the repair has looked at it, this claim is refused.
//  3. It reads the facts, decides what remains, and stores that behind the damaged facts. The fact that says who
//     has asked for the repair, and why, is the first of them.
//  4. It stores a snapshot, which says that reading begins there. Before that, the facts are as damaged as they
//     were, and the repair can be repeated. It and the records are stored only if the claim still holds.
//
// Nothing but the entities of the type roost.coordinator is written.
package factrepair

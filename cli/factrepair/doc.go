// Package factrepair finds damage in the coordinators' facts in a journal, and repairs it. The rules are in
// libs/factstream. This package reads the facts, and stores what remains of them.
//
// A repair takes the place of the active coordinator, as another coordinator does:
//
//  1. It watches the journal heartbeat. If there is a new one, a coordinator is active, and the repair is refused.
//  2. It claims the fact stream, at a term above all that were used. From then on a coordinator that was paused, or
//     could not reach the journal, can store nothing. If another process claimed the stream after the repair read
//     it, this claim is refused.
//  3. It reads the facts, decides what remains, and stores that after the damaged facts. The first of these facts
//     records who requested the repair, and why.
//  4. It stores a mark (an empty snapshot), so that readers begin there. Until then, the facts are as damaged as before, and
//     the repair can be repeated. The journal accepts the mark and the records only if the claim still holds.
//
// It writes only entities of the type roost.coordinator.
package factrepair

// Package instance runs entities: it encodes and decodes what they store, activates them, and executes their
// turns. Package sdk/entity declares types with it, and a runtime drives them: a region, and package entitytest.
//
// # Rules for the runtime
//
// A [Type] is complete when [Type.Check] returned nil; it is not changed afterwards. The runtime calls the methods of
// an [Instance] one at a time. It loads an entity with [New] or [Resume], [Instance.Restore] and
// [Instance.Replay], then calls [Instance.Start], then [Instance.Run] for each command. If a result is Spoiled, or a
// method other than Run returned an error, the instance is discarded: its state may be anything.
//
// # What this does not do
//
// It stores nothing and has no goroutines: an effect of a turn is a field of [turn.TurnDone], and an ask is passed
// to an [Asker].
package instance

// Package lease says who may act: of all candidates for a name, at most one at
// a time holds the lease, and every acquisition has a [sharding.Term] of its
// own, strictly higher than all before it.
//
// # Parts
//
// A backend is a [Store]: Get and Swap on one [Record], nothing else. Who
// renews when, when a lease is lost and when another may take over is decided
// by [Holder], a state machine without clock or network, the same one in every
// backend and in simulation. [Keeper] is the thin driver that gives a Holder
// a clock and a store. Backends are opened by URL in package open; a new
// one is proven by leasetest.
//
// # How it stays exclusive
//
// Nobody's wall clock is trusted. The holder counts its time to live from the
// *start* of the last write that succeeded, by its own monotonic clock, less a
// margin. A contender counts the same time to live from the moment at which
// it first saw the current record, and then replaces exactly that record: the
// store compares version and nonce. The write came before the sight of it, so
// the holder stops first, as long as clocks run at nearly the same rate: the
// margin (200 ms of 2 s) covers clocks that differ by 10 %. The idea of observed
// time is that of client-go's leaderelection
// (https://pkg.go.dev/k8s.io/client-go/tools/leaderelection).
//
// # Terms
//
// The record keeps the highest term ever given. Each acquisition takes the
// next one, also by the same process, at the same address, of a record that it
// wrote itself a second ago. So whatever is fenced by term stays fenced. When
// the record was lost and the journal knows higher terms, [RaiseTerm] lifts
// the term above them before it is used. Versions start again then, so a holder
// from before the loss could meet the version that it knows: the nonce tells it
// that the record is another one. A candidate that saw the lost record waits for
// its time to live before it takes over.
//
// # Which cluster it is
//
// Two stores may have a record of the same name, because two clusters were given
// one. The record therefore keeps a random [sharding.ClusterID] from its first Swap
// on, and [Acquired] says it. A candidate that has seen the record before it was lost
// writes the same one again.
//
// # Lost replies
//
// A Swap without an answer may have happened, or may still happen. Every Swap
// writes a random nonce; the holder reads the record and compares. A write is
// credited with the time at which that very attempt started.
//
// # What this does not do
//
// It does not stop a paused process in the middle of an instruction: the lease
// alone is no fence, the term together with the journal is. A machine that is
// suspended with its monotonic clock standing still may believe in its lease
// for a moment after waking up. A record that is deleted while its holder
// lives excludes nobody who starts afterwards; the term still does. It does not
// elect by health or load, and it is not fair: who is first in line gets it.
package lease

// Package lease decides which process may act: of all candidates for a name, at
// most one at a time holds the lease. Every acquisition has its own
// [sharding.Term], strictly higher than all before it.
//
// # Parts
//
// A backend is a store that keeps the lease as one [Record]. [Backend] is the Go interface
// that a backend implements: Get and Swap on the Record, nothing else.
//
// [Holder] decides when to renew, when a lease is lost and when another candidate may take
// over. It is a state machine without clock or network, the same for every store
// and in simulation. [Keeper] is its loop, which gives the Holder a clock and a
// Backend. Package open opens Backends by URL, and package leasetest tests them.
//
// # How it stays exclusive
//
// No wall clock is trusted. The holder counts its time to live from the *start* of the
// last write that succeeded, by its own monotonic clock, less a margin. Another candidate
// counts the same time to live from the moment at which it first saw the current record.
// Then it replaces exactly that record: the store compares version and nonce. The holder
// wrote the record before the candidate saw it, so the holder stops first. This requires
// that clocks run at nearly the same rate: the margin (200 ms of 2 s) covers clocks whose
// rates differ by 10 %. A candidate counts from its first sight of the record as in
// client-go's leaderelection (https://pkg.go.dev/k8s.io/client-go/tools/leaderelection).
//
// # Terms
//
// The record keeps the highest term ever given. Each acquisition takes the next one, even
// if the same process replaces a record that it wrote itself a second ago. So whatever is
// fenced by term remains fenced.
//
// The record may get lost. If the journal then knows higher terms than the new record,
// [RaiseTerm] raises the new term above them before it is used. Versions start again from
// the beginning, so a holder from before the loss could find the version that it expects;
// the nonce shows that the record is another one. A candidate that saw the lost record
// waits for that record's time to live before it takes over.
//
// # Which cluster it is
//
// Two stores may have a record of the same name, because two clusters were given
// the same name. The record therefore keeps a random [sharding.ClusterID], which its
// first Swap writes. [Acquired] reports the ClusterID. A candidate that saw the record before
// it was lost writes the same ClusterID again.
//
// # Lost replies
//
// A Swap without an answer may have happened, or may still happen. Every Swap writes a random nonce; the
// holder reads the record and compares. If it finds the nonce of an earlier attempt, the holder's time to
// live counts from the start of that attempt, not of the last one.
//
// # What this does not do
//
// The lease alone is not a fence: a process may be paused between its check of the lease and its action.
// When it continues, it acts, even if another process has the lease by then. Only the term and the journal
// together are a fence. A machine that was suspended with its monotonic clock stopped may believe in its
// lease for a moment after it resumes.
//
// If the record is deleted while its holder lives, a process that starts afterwards can
// acquire the lease while the holder still has it. Then only the term protects: the new term is
// raised above the old one, and whatever is fenced by term refuses the old holder.
//
// The package looks neither at the health nor at the load of candidates, and they do not take
// turns. Each candidate has a rank ([SetRank]). When the lease is free, a candidate waits longer
// the higher its rank is, so the one with the lowest rank acquires it.
//
// # Duties of the driver
//
// The driver of a core is the code that gives it a clock and performs its outputs. These
// are the duties of the driver of a [Holder]. It is something else than a
// [Backend]; the duties of a backend are listed there.
//
//  1. One goroutine steps the Holder, with the time of a monotonic clock. Config.Seed
//     differs between all Holders that ever use the same Self.
//  2. If a [Got] or a [Swapped] has arrived, pass it to the Holder's Step before a [Tick] that is due. A Tick
//     comes at the time that Due returns after the last step; an early one does no harm.
//  3. [Get] and [Swap] run outside the loop. Each is answered at most once; the answer has the number of its
//     request (Request). A Swap that returned an error, or was not sent, is [Unknown]; it is never [Conflict].
//     Step also receives late answers: the Holder ignores them.
//  4. The number of requests that have not returned is bounded, whether or not the Holder
//     has given them up.
//  5. [Acquired], [Renewed] and [Lost] are passed on in their order, without waiting.
//     The process compares Until with the clock before every action that needs the
//     lease, because the loop may be paused when the lease expires.
//  6. All such actions must have stopped before Step receives [Release], because the next holder may follow at
//     once. The loop ends with [Released].
//
// [Keeper] is that driver. The loop to write:
//
//	out = h.Step(time.Now(), lease.Tick{}, nil)
//	for {
//		for _, o := range out {
//			perform(o) // never waits: requests run outside the loop
//		}
//		select {
//		case in := <-answers: // taken first if several wait
//			out = h.Step(time.Now(), in, out[:0])
//		case in := <-calls: // SetRank, RaiseTerm, Yield, Release
//			out = h.Step(time.Now(), in, out[:0])
//		case <-time.After(time.Until(h.Due())):
//			out = h.Step(time.Now(), lease.Tick{}, out[:0])
//		}
//	}
package lease

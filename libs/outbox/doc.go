// Package outbox delivers sends: commands that entities store in their records for other entities,
// and that leave once the records are durable. [Dispatcher] is a pure state machine. Its outputs
// ask the journal for records with pending sends, deliver the commands of these sends, and store the
// end of each send.
//
// # Life of a send
//
// Every attempt to deliver a send has the same idempotency key ([Key]), so the send has its effect
// once, however often and by whomever it is delivered. An answer of the target, success or a
// business error, ends the attempts. A refusal ends the attempts too, if every further attempt would be
// refused for the same reason. After any other failure (for example, the target cannot be reached, or
// no region has its type or the command) the send is tried again, with growing pauses, for at most
// [Config.MaxAge]. A send may have its own time-out, pauses and age: [sharding.SendOptions].
//
// A send may name a command for the answer, which its sender executes. Then the Dispatcher has
// this command run with the result, whatever the result is. It does so by a [turn.Fire], as
// package wakeup does for a wake-up. The commit of the command's turn ends the send. A send that
// names no command ends with success, or as a dead letter: *refused* if it certainly had no
// effect, else *in doubt*. A dead letter stays in the journal until an operator drops it or sends it
// again. An operator can drop a pending send too, by a built-in command to the sender
// ([turn.SendDropped]). The sender does not get the answer to a dropped send.
//
// # Order
//
// A *pair* is a sender and a target. One send of a pair is in progress at a time: the next send of
// the pair begins when that one has ended. If the target has refused the send, the end of the send
// must be stored before the next send begins. The target does not remember a refused send, and
// could execute it if the next owner of the sender's shard delivers it again. A pair that fails
// holds back no other pair.
//
// To keep this order, the Dispatcher has in memory either all pending sends of a sender up to some
// record, or none of them. The sends of later records are read from the journal before any of them
// is delivered. The order is kept after a failover too, because the next owner reads the sender's
// sends from its first pending record on.
//
// # What is in memory
//
// A send that becomes durable in this process ([turn.SendsStored]) is delivered at once if all
// earlier pending sends of its sender are in memory. If they are not, the sender's sends are read.
// Each shard is swept when it is opened, and then from time to time, by a [due.Sweeper]. Memory is bounded: if it is
// full, senders whose sends all fail leave the memory. A later sweep reads the sends of these senders
// again.
//
// # What this does not do
//
// The package does not make sure that a command has its effect once: the target does that, by the key.
// Nor does it make sure that an answer is taken once: the journal does that, when it stores the sender's
// append. Volatile targets remember no keys, so a repeat has its effect again there. The package does
// not route commands, reads no clock and knows no journal.
//
// # Duties of the driver
//
// The driver is whatever owns the [turn.Machine] of the same shards. In the services that is
// package region.
//
//  1. Step and Observe are never called concurrently. Their times come from a monotonic clock. A
//     [Tick] comes every 20 ms or so.
//  2. For types that are not volatile, [Open] comes when a shard is open in the machine, and
//     [Close] as soon as the shard drains or is aborted there.
//  3. Every [turn.SendsStored], [turn.SendDropped], [turn.WakesUnknown] and [turn.FiringEnded]
//     of the machine goes to Observe, in their order.
//  4. Each input in [Outputs.Turn] goes to the machine, after the call of Step or Observe that
//     produced it has returned.
//  5. Each [Read] is answered by one [Page], which is read from the journal after the Read; each
//     [Deliver] by one [Answered], and each [Ack] (an append that stores ends of sends) by one [Acked].
//
// The loop to write, for a dispatcher d and its machine m:
//
//	for in := range inputs {
//		var out outbox.Outputs
//		switch in := in.(type) {
//		case outbox.Input: // an Open, Close, Page, Answered, Acked or Tick
//			d.Step(now, in, &out)
//		case turn.Input:
//			for _, o := range m.Step(now, in, nil) {
//				perform(o)
//			}
//			for _, e := range m.ShardEvents() {
//				d.Observe(now, e, &out)
//			}
//		}
//		for _, in := range out.Turn {
//			inputs.Put(in) // it is a turn.Input
//		}
//		for _, r := range out.Reads {
//			read(r) // returns at once, as do route and store; the Page becomes an input later
//		}
//		for _, v := range out.Delivers {
//			route(v) // the Answered becomes an input later
//		}
//		for _, a := range out.Acks {
//			store(a) // the Acked becomes an input later
//		}
//	}
package outbox

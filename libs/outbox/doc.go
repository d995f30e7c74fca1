// Package outbox delivers what entities send: commands in their records, which are sent to other
// entities once the records are durable. [Dispatcher] is a pure state machine: it asks the
// journal for records with pending sends, has their commands delivered, and stores what has
// become of each.
//
// # Life of a send
//
// A send is pending until its target has answered. Until then it is tried again, always with the
// same idempotency key ([Key]), so that it has its effect once, however often it is delivered
// and by whomever. A target that answers, with success or with a business error, ends it. So
// does a refusal that would come again. All else is tried again with a growing pause, for
// [Config.MaxAge]: a target that cannot be reached, or a type or command that no region has.
//
// If the send names a command of its sender, that command takes the answer, whatever it is: as
// a firing of the [turn.Machine], whose commit ends the send. Otherwise success ends it, and
// everything else makes it a dead letter: *refused* if it certainly had no effect, else *in
// doubt*. Dead letters stay in the journal. An operator ends a send in any state by a command of its
// sender ([turn.SendDropped]); nobody is told the answer then.
//
// # Order
//
// Of a *pair*, which is a sender and a target, one send is under way at a time: the next one
// begins when it has ended. A pair that fails holds back no other pair. For that, a sender is
// in memory either with all of its pending sends up to some record, or not at all; what is
// behind that record is read before anything of it is delivered. That holds after a failover
// too, because the next owner reads the sender from its first pending record on.
//
// # What is in memory
//
// What becomes durable in this process ([turn.SendsStored]) is delivered at once, if all that
// the sender has sent before is in memory. Else the sender is read. Each shard is swept when it
// is opened, and then from time to time, so that nothing is lost that this package forgets.
// Memory is bounded. If it is full, senders are forgotten of which all sends fail; a later
// sweep finds them again.
//
// # What this does not do
//
// It does not make sure that a command has its effect once: the target does, by the key, and
// the journal of the sender, which takes an answer once. Volatile targets remember no keys:
// a repeat has its effect again there. It does not route commands, reads no clock and knows no
// journal.
//
// # Duties of the driver
//
// The driver is whatever owns the [turn.Machine] of the same shards. In the services that is
// package region.
//
//  1. Step and Told are never called by two goroutines at a time, with the times of a
//     monotonic clock. A [Tick] comes every 20 ms or so.
//  2. [Open] comes when the shard is open in the machine, for types that are not volatile, and
//     [Close] as soon as it drains or is aborted there.
//  3. Every [turn.SendsStored], [turn.SendDropped], [turn.WakesUnknown] and [turn.FiringEnded]
//     of the machine goes to Told, in their order.
//  4. Each input in [Outputs.Turn] goes to the machine, after the call that asked for it has
//     returned.
//  5. Each [Read] is answered by one [Page] that was read after it was asked for, each [Deliver]
//     by one [Answered], and each [Ack] by one [Acked].
//
// The loop to write:
//
//	for in := range inputs {
//		var want outbox.Outputs
//		for _, o := range m.Step(now, in, nil) {
//			perform(o)
//		}
//		for _, e := range m.ShardEvents() {
//			d.Told(now, e, &want)
//		}
//		for _, in := range want.Turn {
//			inputs.Put(in) // for m
//		}
//		for _, v := range want.Delivers {
//			route(v) // never waits: the Answered is a later input of d, as are Page and Acked
//		}
//	}
package outbox

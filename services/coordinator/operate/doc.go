// Package operate decides how a built-in command of an operator is brought to the region that
// serves its entity: when it is sent, when again, and what is known of it in the end. A [Machine]
// is about one command and lives as long as that.
//
// A command is sent to the owner of its shard at an epoch that no region has refused. An attempt
// that was not answered is repeated, under the same key, so that it has one effect. Then the command
// is in doubt: what is refused after that is answered as unknown, because an earlier attempt may
// have been applied, or may arrive still.
//
// It is no router (libs/router): an operator's command is rare, so there are no queues, and links
// live as long as an attempt.
//
// # What this does not do
//
// It does not look anything up, opens no link, and does not decide who may send what.
//
// # Duties of the driver
//
//  1. The first input is Begin. Each of the outputs [Find], [Send] and [Wait] is answered by one
//     input before anything else happens, but for [Over], which may come at any time. After [End]
//     there are none.
//  2. [Allocate] is not answered.
//  3. All attempts have the same idempotency key. What may have left this process is sent
//     ([Failed.Sent]).
//
// The loop to write:
//
//	m := operate.New(cfg, deadline)
//	in := operate.Input(operate.Begin{})
//	for {
//		for _, o := range m.Step(time.Now(), in) {
//			switch o := o.(type) {
//			case operate.End:
//				return o
//			case operate.Find:
//				in = find(o)
//			case operate.Send:
//				in = send(o)
//			case operate.Wait:
//				in = wait(o) // Tick, or Over
//			case operate.Allocate:
//				allocate(o)
//			}
//		}
//	}
package operate

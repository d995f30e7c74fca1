// Package router is the pure core that routes commands: it admits commands, finds the region that
// serves their shard, and sends them over a link. Each command ends with exactly one [Finish], or
// with none if its client has gone ([Cancel]). A gateway routes the commands of its clients; a
// region routes the commands that its entities send to other entities. The driver, package driver,
// owns the links and the clock.
//
// # Life of a command
//
// [Submit] brings a command, which is checked and admitted within the limits. A command
// counts towards the limits until it is finished, so that putting it back into the queue
// never exceeds them. Every shard has one list of commands in the order of admission. A
// command is waiting (to be sent) or sent (its newest attempt is unanswered). If the
// shard's row is serving and the link to its owner is up, waiting commands are sent in
// order: none overtakes an earlier waiting command of its shard. Otherwise the router
// asks the coordinator for a home of the shard, and waits for the row.
//
// # Outcomes
//
// A command ends as Rejected only if every attempt was either never written to a link
// or definitely refused; otherwise a command that does not succeed ends as Unknown. A
// command that may have been applied is sent again only if that is harmless: if it is
// read-only, or has a key and its type is journaled. Any other command is sent again only
// after a definite refusal.
//
// When the coordinator has known no region for a type for a while, the route table marks the type
// as unhosted. Commands for the type are then refused at once, except commands for a shard whose
// region the router still reaches although the coordinator has lost it.
//
// # Moves
//
// A region that does not serve the shard at the command's epoch refuses the command with
// [NotMine]. The router sends no command of that shard at that epoch again.
//
// A row with phase serving and a newer epoch means that the newer epoch is claimed. What was sent
// at an older epoch, and has not taken effect by then, never will. If an unanswered command that
// was sent at an older epoch may be sent again, it is put back into the queue, before later
// commands. If it may not, it holds up the later commands of its shard until it is answered, for
// [Config].UnkeyedWait at most; then it ends as Unknown. The first answer to a command counts,
// whichever attempt it belongs to.
//
// The order of a shard's commands depends on links and regions too:
//
//   - A [Sender] decides which commands are written, so that a link has the commands of one
//     shard in order.
//   - A link delivers its commands without gaps until it breaks.
//   - A region that refused a shard at an epoch never takes it at that epoch again.
//   - A region reads a new connection of a lane only after it has stopped reading the old
//     one; see link.Readers.
//
// # Versions
//
// While a program is rolled out, regions with different versions of a type serve its
// shards. The table lists the commands of all versions; a command that is not in the list is
// refused as unimplemented. A region refuses a command that its own version does not have
// with [sharding.UnknownCommand]. The router remembers that for as long as this incarnation
// of the region has shards. Meanwhile the router itself refuses this command for all shards
// of the region, at once and as not applied; the client may send it again.
//
// There is one exception. While the shard leaves the region (it is being handed off, or the
// region refused its epoch), the command waits for the next owner, whose version may have
// the command. A command waits in this way at most once. All commands that wait in this way
// may together take at most the share [Config].DeferredShare of each limit, so that callers
// of a new version cannot take the places of callers of the old one. The command keeps its
// place in the order, but no other command waits for it. If a later command for the same
// entity may have run meanwhile, the waiting command is refused.
//
// # In a gateway and in a region
//
// The router of a gateway watches the route table, and has a link to every region that a row names.
// Its polls tell the coordinator how the gateway's clients fare (control.Card).
//
// A region watches the table anyway. Its router gets the table from the region ([Config].Fed,
// [TableChange]), beginning with the router's first command: a router without commands costs nothing. Its
// links are opened when they are first needed, and closed when they were not needed for a while
// ([Config].LinkIdle). The router also has a link to its own region. Only the driver knows that this
// link is in memory: commands for the region's own shards are checked, refused and sent again like
// all others.
//
// # What this does not do
//
// The core stores nothing, knows no client and decodes no payload. It cannot tell whether a
// command whose answer was lost took effect, and does not guess. Nothing orders commands that
// come through different routers.
//
// # Duties of the driver
//
//  1. One goroutine steps the Machine, with the time of a monotonic clock, and performs the outputs of
//     each Step in their order, before the outputs of the next. A Tick comes at most 20 ms or so after
//     the time that Due returns after the last step; earlier ones do no harm.
//  2. Each command is submitted with a Request number of its own and with a command id.
//     Its names ([sharding.Envelope.Check]) and sizes were checked before. Commands of
//     one client whose order matters are submitted in that order. A command ends with one
//     [Finish], or with [Cancel] when its client has gone.
//  3. [Finish].Held counts the bytes of a reply until it is delivered. They are given back
//     by [Delivered] when the client has the reply or is gone. One Delivered may carry the
//     sum of several Held. Commands that the driver has refused itself, for lack of room, are
//     counted by [TurnedAway].
//  4. The command of a [SendCommand] is written only to the link that [Sender.Link] returns, on the
//     lane of its shard. If the command cannot be written, the [Sender] learns why: [Sender.Failed]
//     if the link did not take the command, [Sender.Refused] if no link ever would. After the
//     outputs of a step, [Sender.Next] is called until it returns nothing, and each input that it
//     returns goes to the Machine's Step.
//  5. [Sender.Up] reports a new link, with a number that no link had before; it is called before
//     anything that arrived on the link goes to Step. [Sender.Down] reports the end of the link,
//     with the commands that were never written to it; it is called after everything that arrived
//     on the link has gone to Step.
//  6. Answers of a link go to Step in the order in which they arrived. A command that was written
//     to a link is answered on it, however late, unless the link is lost. The core relies on this:
//     it never repeats an unanswered command on the same link at the same epoch.
//  7. On [Connect] the driver keeps a link up until [Disconnect]; then it closes the link
//     and calls [Sender.Close].
//  8. A [Send] that is a call is answered once, by [Replied]; any other Send may be lost. See
//     package control.
//  9. If the Machine is fed ([Config].Fed), each [TableChange] has the changes of the route table since
//     the TableChange before it.
//  10. [Stop] is the last input. The commands that it ends are answered like all others.
//
// The loop to write:
//
//	for {
//		select {
//		case in := <-inbox: // commands, answers, links, polls
//			out = m.Step(time.Now(), in, out[:0])
//		case <-ticker.C:
//			out = m.Step(time.Now(), router.Tick{}, out[:0])
//		}
//		perform(out) // never waits
//		for in, ok := sender.Next(); ok; in, ok = sender.Next() {
//			perform(m.Step(time.Now(), in, out[:0]))
//		}
//		flush() // every link that was written to, once
//	}
package router

// Package turn is the entity core: a pure state machine that gives each entity one
// command at a time, stages what its turns produce, holds every reply until everything
// staged before the reply is durable, and activates and passivates entities.
//
// # Life of a command
//
// [Deliver] puts a command into its entity's mailbox. If the entity is not alive, [Load] makes an
// instance first. (If nothing but a new instance is needed, there is no Load, and the first turn makes
// the instance: see Type.NoLoad.) [Run] executes one turn; its answer, [TurnDone], has the events that the turn
// staged. A turn that staged events becomes a record with the next sequence number. So does a turn
// of a keyed command that staged none, because its reply is stored for duplicates; read-only
// commands are not stored. The entity continues with its next command at once: turns do not wait for
// the disk. Records are handed to the journal as a unit ([Append]), one unit of an entity at a
// time, so that a delayed transaction can never land between two others.
//
// # Deletion
//
// A turn that deletes its entity leaves a record of the delete. After this record the entity is
// empty, and its wake-ups are gone. The incarnation ends with that turn. The machine itself
// executes built-in commands, such as roost.delete: there is no [Run] for them.
//
// # Output gate
//
// A reply leaves when every record staged before it, its own included, is durable. For a turn
// without a record the shard's fence is read as well ([ReadFence]), so that a deposed owner
// can neither write nor answer, and reads are linearizable. Commands that allow stale
// reads are answered without this read. A command whose entity cannot be loaded is refused only
// after the fence was read.
//
// # Unknown outcomes
//
// An append whose outcome is unknown ends the incarnation. The outcome is settled by a
// write, never by a read: an empty record at the same sequence number, repeated until it
// is durable or refused. Only then is the entity loaded again, and the commands in doubt
// are looked up: a stored command gets its stored reply; a command that is not stored was not
// applied, and runs again, in arrival order. While the empty record is refused because data
// is damaged, the entity's commands are refused. Each command that arrives makes the core try
// to append the empty record once more.
//
// # Wake-ups
//
// [Fire] brings the command of a wake-up that is due. One append stores the record of this
// command's turn, and marks the wake-up as fired. The journal refuses the append unless the
// setting stands. While a firing waits in the mailbox, an append of its entity may change the
// wake-up. Once that append is durable, or if its outcome is unknown, the firing ends and its
// command does not run.
//
// The asks of a firing's turn are not part of an append, so the journal cannot refuse them. The
// driver must therefore not send a Fire if its setting is gone, according to the events that the
// machine has reported: see the last of the duties.
//
// # Asks
//
// A running turn may ask other entities ([Ask]); its entity runs no other turn meanwhile. The
// machine decides when the command may leave, and chooses its key ([SendAsk]). If turns wait for
// each other in a circle, the machine finds the circle ([SendProbe]) and makes one of the turns
// give up. A turn that has sent a changing ask and then fails is in doubt: its command is never
// answered as not applied.
//
// # Kept states
//
// A volatile type may keep the states of its entities when a shard is handed off. [Stop]
// asks an instance for its state, [Drained] has the states of all entities that were alive, and
// [Open] brings these states to the next owner. An entity is loaded with its state by
// its first command, or when one of its timers is due. Until then the machine holds the state, as
// bytes that it does not read; if the shard moves again, the state is handed on.
//
// # What this does not do
//
// It holds no instances, runs no user code, and reads no clock: instances
// live in the driver, time arrives as an argument. It does not decide which
// shards it serves. Volatile types pass no gate: their replies are best effort.
//
// # Duties of the driver
//
// The driver is whatever holds the instances. In the services, package region stands
// between the machine and the driver: it opens, drains and aborts shards and takes
// [Machine.ShardEvents]; it passes on everything else.
//
//  1. Step is never called by two goroutines at a time. The time comes from a monotonic
//     clock, and a [Tick] comes every 20 ms or so, or at the time that AlarmAt returns. The outputs of a step are performed
//     in their order, before the outputs of the next step; performing them never waits. The names in
//     a command are checked before Step receives the [Deliver] ([sharding.Envelope.Check]).
//  2. An instance is used by one job at a time, in the order of the outputs: [Load], or the [Run]
//     that is New, then every [Run], [Snapshot] and [Stop] of its incarnation. Different instances do
//     not wait for each other.
//  3. Every Load is answered by one [Loaded], every Run by one [TurnDone], every Append
//     by one [Appended], every ReadFence by one [FenceRead], every Lookup by one
//     [LookedUp], every ReadSend by one [ReadSendDone], every Stop by one [Stopped], however late.
//     A stop hook that does not end is abandoned: the Stop is answered without it. A handler
//     cannot be abandoned: its entity waits for it, and [Cancel] asks it to end.
//  4. The turn that stages events applies them to the instance. A Load applies stored events,
//     in the order of their records, by the same code.
//  5. Append and ReadFence go to the journal as they are, in their order. What the
//     journal reports is passed on unchanged: an outcome that is not known is
//     UnknownOutcome, never a refusal. The core repeats what must be repeated.
//  6. On [Snapshot] the driver captures the state of the instance before any later Run of
//     it begins, and stores the state with the output's Seq and Epoch. There is no answer:
//     the machine need not know whether the snapshot was stored.
//  7. [Cancel] ends the context of the turn; its TurnDone still comes. On [Drop] the driver gives the
//     instance up at once, whatever runs on it.
//  8. If a [Stop] asks for the state, the driver takes it after the stop hook, provided that the
//     hook has ended. A [Load] with a state makes the instance from that state, or an empty
//     instance if the state cannot be read.
//  9. After the outputs of a step are performed, [Machine.Recycle] is called. The machine then uses
//     the memory of its [Answer] outputs again, so each Answer must be sent, or copied, before. A
//     [Run] is not used any more after Step has received its TurnDone.
//  10. [SendAsk] goes to the router, and is answered by one [AskAnswered]; [SendProbe] goes
//     the same way, and may get lost. Only [AskDone] lets the asking turn go on, even after a
//     [Drop] of its instance. If the context of a turn ends while the turn waits, the driver steps
//     [WithdrawAsk], and waits for the AskDone. A driver that ends steps WithdrawAsk for
//     all turns that wait.
//  11. Step does not receive a [Fire] if an earlier [WakesChanged] reports its setting as gone, or if
//     the setting was read before the last [WakesUnknown] of its entity. Package wakeup ensures
//     that.
//
// The loop to write:
//
//	for {
//		var out []turn.Output
//		select {
//		case in := <-answers: // of jobs and of the journal, before new commands
//			out = m.Step(time.Now(), in, out[:0])
//		case in := <-commands:
//			out = m.Step(time.Now(), in, out[:0])
//		case <-ticker.C:
//			out = m.Step(time.Now(), turn.Tick{}, out[:0])
//		}
//		for _, e := range m.ShardEvents() {
//			handle(e)
//		}
//		for _, o := range out {
//			perform(o) // never waits: jobs run outside the loop
//		}
//		m.Recycle()
//	}
package turn

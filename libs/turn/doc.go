// Package turn is the entity core: a pure state machine that gives each entity one
// command at a time, stages what its turns produce, holds every reply until everything
// staged before the reply is durable, and activates and passivates entities.
//
// # Life of a command
//
// [Deliver] puts a command into its entity's mailbox. If the entity is not
// alive, [Load] makes an instance first. [Run] executes one turn; the answer
// [TurnDone] brings the events that it staged. A turn that staged events becomes a record
// with the next sequence number. A turn of a keyed command becomes a record even if it staged
// none, because its reply is stored for duplicates; only a read-only command is not stored. The entity goes on at once:
// turns do not wait for the disk. Records are handed to the journal as a unit ([Append]), one
// unit of an entity at a time, so that a delayed transaction can never land between two
// others.
//
// # Deletion
//
// A turn that deletes its entity leaves a record that says so: behind it the entity is empty,
// and its wake-ups are gone. The incarnation ends with that turn. Built-in commands are
// executed by the machine itself, and not by a [Run]; roost.delete is one.
//
// # Output gate
//
// A reply leaves when every record staged before it, its own included, is durable. For a turn
// without a record the shard's fence is read as well ([ReadFence]), so that a deposed owner
// can neither write nor answer, and reads are linearizable. Only commands that allow stale
// reads do without. A command whose entity cannot be loaded is refused behind such a read, too.
//
// # Unknown outcomes
//
// An append whose outcome is unknown ends the incarnation. The outcome is settled by a
// write, never by a read: an empty record at the same sequence number, repeated until it
// is durable or refused. Only then is the entity loaded again, and the commands in doubt
// are looked up: one that is stored gets its stored reply; one that is not stored was not
// applied, and runs again, in arrival order. While the empty record is refused because data
// is damaged, the entity's commands are refused. Each command that arrives makes the core try
// to append the empty record once more.
//
// # Wake-ups
//
// The command of a wake-up that is due comes with [Fire]. That it has fired is stored by one append
// with the record of its turn, and the journal refuses that append unless the setting stands. A firing
// that waits for its turn ends without one if an append that becomes durable meanwhile changes its
// wake-up, or may have done so.
//
// One gap is left. Whoever sends the Fire may not know yet that the setting is gone, because the
// outcome of an append was unknown, and the entity may have been loaded since then. The turn of such a
// Fire runs. What it stages is refused, but an ask of it that changes another entity may have left:
// [Machine] makes sure only that the shard's fence stands. To close the gap, the first changing ask of
// such a turn needs an operation of the journal that checks the setting as an append with a
// [sharding.Fired] does, and changes nothing.
//
// # Asks
//
// A running turn may ask other entities ([Ask]), and keeps its entity meanwhile. The machine says
// when the command may leave and with which key ([SendAsk]), and gives up for turns that wait for
// each other in a circle ([SendProbe]). A turn that has sent a command which may change another
// entity, and does not end well, is in doubt: it is never answered as not applied.
//
// # Kept states
//
// A volatile type may keep the states of its entities when a shard is handed off in order. Stop
// asks for the state, [Drained] has those of all entities that were alive, and [Open] brings them
// to the next owner. An entity is loaded with its state by its first command, or when one of its
// timers is due; until then the state stays in the machine, and is handed on with the next move.
//
// # What this does not do
//
// It holds no entity state, runs no user code, and reads no clock: instances
// live in the driver, time arrives as an argument. It does not decide which
// shards it serves. Volatile types pass no gate: their replies are best effort.
//
// # Duties of the driver
//
// The driver is whatever holds the instances. In the services, package region stands
// between the machine and the driver: it opens, drains and aborts shards and takes
// [Machine.ShardEvents]; it passes on everything else.
//
//  1. Step is never called by two goroutines at a time. The time is that of a monotonic
//     clock, and a [Tick] comes every 20 ms or so. The outputs of a step are performed
//     in their order, before those of the next step; none of them may wait. The names in
//     a command are checked before [Deliver] is stepped ([sharding.Envelope.Check]).
//  2. An instance is used by one job at a time, in the order of the outputs: [Load],
//     then every [Run], [Snapshot] and [Stop] of its incarnation. Different instances do
//     not wait for each other.
//  3. Every Load is answered by one [Loaded], every Run by one [TurnDone], every Append
//     by one [Appended], every ReadFence by one [FenceRead], every Lookup by one
//     [LookedUp], every ReadSend by one [SendRead], every Stop by one [Stopped], however late. A stop hook that does not
//     end is abandoned, and answered all the same. A handler cannot be abandoned: its
//     entity waits for it, and [Cancel] asks it to end.
//  4. Events are applied to the instance by the turn that staged them, and in a Load by
//     replay, in the order of their records, by the same code.
//  5. Append and ReadFence go to the journal as they are, in their order. What the
//     journal reports is passed on unchanged: an outcome that is not known is
//     UnknownOutcome, never a refusal. The core repeats what must be repeated.
//  6. On [Snapshot] the driver captures the state of the instance before any later Run of
//     it begins, and stores the state with the output's Seq and Epoch. There is no answer:
//     the machine need not know whether the snapshot was stored.
//  7. [Cancel] ends the context of the turn; its TurnDone still comes. [Drop] forgets an
//     instance at once, whatever runs on it.
//  8. If a [Stop] asks for it, the state is taken after the stop hook, if that has ended. A
//     [Load] with a state makes the instance from it, or an empty one if it cannot be read.
//  9. An [Answer] is sent, or copied, before [Machine.Recycle] is called; a [Run] is not
//     used any more once its TurnDone is stepped.
//  10. [SendAsk] goes to whoever routes commands, and is answered by one [Asked]; [SendProbe] goes
//     the same way, and may get lost. [AskDone] lets the turn go on that has asked, also after its
//     [Drop], and nothing else does: when the context of a turn ends while it waits, the driver
//     steps [WithdrawAsk], and waits for the AskDone. A driver that ends steps WithdrawAsk for
//     all turns that wait.
//
// The loop to write:
//
//	for {
//		var out []turn.Output
//		select {
//		case in := <-answers: // of jobs and of the journal, ahead of new commands
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
//			perform(o) // never waits: jobs run beside the loop
//		}
//		m.Recycle()
//	}
package turn

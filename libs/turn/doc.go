// Package turn is the execution core of stateful entities: a pure state
// machine that gives each entity one command at a time, stages what its turns
// produce, holds every reply until everything it depends on is durable, and
// activates and passivates entities.
//
// # Life of a command
//
// [Deliver] puts a command into its entity's mailbox. If the entity is not
// alive, [Load] makes an instance first. [Run] executes one turn; the answer
// [TurnDone] brings the events it staged. Events (and the reply of a keyed
// command, events or not) become a record with the next sequence number. The
// entity goes on at once: turns do not wait for the disk. Records are handed
// to the journal as a unit ([Append]), one unit of an entity at a time, so that
// a delayed transaction can never land between two others.
//
// # Output gate
//
// A reply leaves when every record staged before it, its own included, is
// durable. For a turn that staged nothing the shard's fence row is read as well
// ([ReadFence]), so that a deposed owner can neither write nor answer, and reads
// are linearizable.
//
// # Unknown outcomes
//
// An append whose outcome is unknown ends the incarnation. It is settled by a
// write, never by a read: an empty record at the same sequence number, repeated
// until it is durable or refused. Only then is the entity loaded again, and the
// commands in doubt are looked up: a stored one gets its stored reply; the others
// were not applied and run again in arrival order.
//
// # What this does not do
//
// It holds no entity state, runs no user code, and reads no clock: instances
// live in the driver, time arrives as an argument. It does not decide which
// shards it serves. Volatile types pass no gate: their replies are best effort.
package turn

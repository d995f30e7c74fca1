// Package journal has the vocabulary and the rules of the journal, which stores the events of entities durably,
// and enforces by a fence who may append. It is the one place where ownership is enforced; everywhere else it is
// advisory. Nothing here runs: package commit gathers operations into batches, and a [Backend] stores them.
//
// An entity's journal is a sequence of records without gaps. A shard has a fence: the epoch at
// which the shard was claimed, and the region that claimed it. A [Backend] decides a batch of
// operations ([Op]) in one transaction, by [Decide]:
//
//   - [sharding.Claim] succeeds if the stored epoch is lower, or equal with the
//     same owner.
//   - [sharding.Append] succeeds if its epoch is the stored one, its first record follows
//     the entity's last one, none of its commands is stored, and the setting of every wake-up
//     that it reports as fired still stands. All of it is written, or nothing.
//   - [sharding.ReadFence] succeeds if its epoch is the stored one.
//   - [WriteSnapshot] succeeds if its epoch is the stored one, the record of its sequence
//     number is stored, and no snapshot with a higher sequence number is.
//   - [Purge] succeeds if its epoch is the stored one, and something is left of the life that it
//     names. It removes what is old enough.
//   - [DropSnapshot] succeeds if a snapshot is stored, no events of the entity's life were
//     trimmed, and the snapshot's sequence number is not above the field Seq. (The program that
//     drops the snapshot has read the entity's records up to Seq.) It succeeds at any epoch, because
//     it takes nothing from the owner: the records that remain give the same state.
//
// Both the epoch and the sequence number must be checked: with the epoch alone, two
// incarnations of an entity at one epoch could apply an effect twice; with the sequence
// number alone, the records of two epochs could interleave. (The workflow engine
// Temporal does the same: range ids are checked inside the write. Event stores use the
// sequence number as primary key.)
//
// A refused operation does not affect the others of its batch.
//
// # Outcomes
//
// A [Result] reports the outcome of an operation. Durable means that it survives a power cut. A
// refusal means that nothing was written. UnknownOutcome means that the operation may have
// happened, or may still happen later. An append with an unknown outcome is settled by a write,
// never by a read. The settling write is an append of one empty record at the same sequence
// number, repeated until it is durable (then the first append did not happen and never will) or
// refused by sequence number (then a record is stored there: load the entity to see which one).
//
// # Generations
//
// A journal has a generation: a random number, drawn when the journal is created and again when
// it is restored. A process that opened the journal in an earlier generation must stop: the
// data that it remembers is perhaps no longer stored. So every transaction compares the
// generation that the process knows with the journal's, and two processes compare theirs in
// every handshake.
//
// A journal also stores the lowest formats that a program must know to read it ([Facts.MinReader]) and to write to it
// ([Facts.MinWriter]). An operator raises these formats by activating the journal for a later release, perhaps while a
// process of an earlier release still runs. That process must stop too, so every transaction compares the formats as
// well: see [Facts.CheckOpened].
//
// # Wake-ups and sends
//
// In addition to the records, there are two kinds of entries. An append changes them in its own
// transaction. Nothing else changes them, except that a [Purge] changes or removes the
// [sharding.PurgeWake] of its entity, and a [Repair] may remove them.
//
// A *wake-up* sets the time at which its entity must start without being called. A record sets or
// removes it. The *setting* of a wake-up stands until the wake-up is set again or removed, or has
// fired for the last time. When the command of a wake-up has run, an append reports that the wake-up
// has fired ([sharding.Fired]). This append is refused unless the setting stands, so the command
// takes effect once, even if several regions believe that they own the shard.
//
// There is one entry of *sends* for each record that sends commands to other entities. It has the
// state of each of these commands: pending, done, or a *dead letter*, which is not delivered any
// more and stays until an operator deals with it. An append reports that a send is done or a dead
// letter ([sharding.Delivered]). Reporting this a second time changes nothing. An append that
// only reports ends of sends may be in one batch with another append of its entity; other appends
// of one entity may not share a batch.
//
// The owner of a shard reads both kinds of entries in pages ([Reader]).
// The cost of a page grows with the entries in it, and not with the size of the journal. The
// command that a wake-up runs, or that is sent, is stored in the record, not in the entry; the
// store adds it to the page (see [WakeEntry] and [SendEntry]).
//
// # Damage
//
// An operation that depends on damaged data is refused as damaged, see [Damaged]. Package commit finds it among the
// operations of its batch.
//
// An operator repairs an entity by a [Repair], which is fenced like everything else: in one transaction
// it claims the shard for [RepairOwner] at the next epoch, adds an audit line, and sets records aside. These stay in
// their places without their events, so that no number is ever used twice. See [PlanRepair] for what
// is refused, and [DecideRepair].
//
// # Dedupe
//
// The id of every command in a record is kept, with its [sharding.CommandHash]
// and its reply, so that a repeat is recognised. See [Config.DedupeAge] for how long,
// and [KeyTime] for what happens to older keys. The age of an id does not depend
// on how clocks are set: see [Stamp.Next].
//
// # What this does not do
//
// Records lose their events only if a snapshot requests it ([WriteSnapshot.Cut], [TrimMarks]). They are removed
// only then, or when their entity was deleted, and only when their idempotency keys are expired. There are no
// transactions over several entities. Payloads are not interpreted. A damaged record is detected and reported;
// an operator decides how to repair it. Nothing here decides which region should own a shard. Nothing here reads or
// writes a store, or a clock.
package journal

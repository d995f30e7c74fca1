// Package sim simulates whole clusters on one goroutine, in virtual time. It runs the real cores of
// gossip, lease, coordinator, region, entity execution and gateway, and the real rules of the journal
// (journal.Decide). One seed determines everything that happens.
//
// A [World] has two coordinators, three regions and often a fourth, two gateways, a journal, and a lease
// store. A few clients send commands to a handful of entities. First there is a storm:
//
//   - packets are lost, duplicated and delayed, and links break;
//   - hosts are cut off, in one direction or both;
//   - processes crash or are paused;
//   - the journal does not report the outcome of a transaction, or commits it later;
//   - operators drain and stop regions, cordon them, pin and move shards, and freeze moves.
//
// In the harsh climate, entities ask each other, in chains and in circles. They also send each other
// commands, and set and cancel reminders.
//
// In the poisonous climate, an entity or two end their regions, by a command, a reminder or a send, until they are
// quarantined; some because a shard core panics at their commands. Each region notes its turns for the process after it, with the real queue of suspects.
//
// Then all faults end, and everything must finish and converge.
//
// # What is checked
//
// The guarantees are checked against the log of commits and the history of the clients, not
// against what the cores report:
//
//   - epochs grow per shard, and sequence numbers have no gaps;
//   - every answer shows the state that its entity had at a moment between call and return, so every
//     entity is linearizable, reads included;
//   - every acknowledged command is durable exactly once;
//   - a command id has one effect and one reply;
//   - a command that was not applied has no effect;
//   - commands that are sent in one AskMany request take effect in order;
//   - if the answer to a command was unknown, the command does not take effect after a command that was
//     sent later through the same gateway;
//   - every request ends exactly once, in time.
//
// In the harsh climate, entities act without clients. There these guarantees are checked too:
//
//   - the answer to an ask shows only durable state;
//   - no turn waits beyond its deadline: a turn that asks an entity of its own chain is refused at once,
//     and if turns of different chains wait for each other in a circle, the youngest of them gives up;
//   - a reminder fires once for each due time, or once for several due times that have passed;
//   - if a command cancels a reminder, the reminder does not fire after the command was answered. If the turn of the
//     reminder is running already, the asks that this turn sends from then on have no effect;
//   - a send takes effect once and in order, and the answer that its sender gets is true.
//
// Each core also checks its own invariants, limits of buffers included.
//
// In the poisonous climate it is checked, against what has really run and ended: what ends regions is quarantined, after
// at most as many crashes as docs/running/repair.md says, and what does not end regions is quarantined only in the cases
// that it names; a quarantined entity does not run at any owner that gets its shard afterwards, under any
// coordinator; others are served; and a release ends all of it.
//
// TestRestores restores the journal from a backup, in good weather, while an old region and the gateways with
// their old tables go on. If a process opened the journal before the restore, nothing that
// it has sent may have an effect after the restore.
//
// TestDeletes deletes the rows of the coordinators from the journal, in good weather. The active coordinator must notice, and
// in a new term all shards must be served again, also those that gateways have old rows of.
//
// After the storm, the cluster must have one active coordinator, one membership and equal tables.
// Every shard must be served by a live owner that has claimed it, and every entity must answer.
//
// # How to use it
//
// A run depends only on the climate and the seed. The climate determines the kinds and the rates of
// faults. SIM_CLIMATE chooses it: classic, harsh, which has more kinds of faults (see harshWeather), or poisonous, which has
// entities that end regions (see poisonWeather).
// SIM_SEED=7 go test -run TestSeed runs one seed. SIM_TRACE=1 prints what happens. TestSeeds runs many
// seeds: SIM_SEEDS is their number, and SIM_FIRST is the first seed. TestPoison runs seeds of the poisonous climate,
// as many as SIM_POISON_SEEDS says. The build tag "mutants" adds
// TestMutants. It removes one guard at a time, and shows which seed detects that.
//
// # What this does not do
//
// The drivers here have a few lines each. They drive the real cores, but encoding, sockets and SQL are
// not simulated. If seeds pass, that alone proves little. The mutants show that the faults are strong
// enough to detect errors.
package sim

// Package sim simulates whole clusters: the real cores of gossip, lease,
// coordinator, region, entity execution and gateway, and the real rules of the journal
// (journal.Decide), on one goroutine, in virtual time. Everything that happens is drawn
// from one seed.
//
// A [World] has two coordinators, three regions and often a fourth, two
// gateways, a journal, a lease store, and a few clients that keep a handful of
// entities busy. First there is a storm:
//
//   - packets are lost, duplicated and delayed, and links break;
//   - hosts are cut off, in one direction or both;
//   - processes crash or are paused;
//   - the journal does not report the outcome of a transaction, or commits it later;
//   - operators drain and stop regions, cordon them, pin and move shards, and freeze moves.
//
// In the harsh climate entities ask each other, in chains and in circles, send each other commands,
// and set, repeat and cancel reminders.
//
// Then all faults end, and everything must finish and converge.
//
// # What is checked
//
// The guarantees are checked against the log of commits and the history of the clients, not
// against what the cores report:
//
//   - epochs grow per shard, and sequence numbers have no gaps;
//   - every answer shows the state that its entity had at a moment between call and return,
//     which makes every entity linearizable, reads included;
//   - every acknowledged command is durable exactly once;
//   - a command id has one effect and one reply;
//   - a rejected command has no effect;
//   - items of a batch take effect in order;
//   - a command whose client was told UNKNOWN does not take effect after one that was sent
//     later through the same gateway;
//   - every request ends exactly once, in time.
//
// In the harsh climate, where entities act without clients, these are checked too:
//
//   - an ask shows nothing that may still be lost;
//   - no turn waits beyond its time: a call cycle is refused at once, and the youngest turn of a
//     circle gives up;
//   - a reminder fires once for each due time, or once for several due times that have passed;
//   - once somebody was told that a reminder is cancelled, the reminder does not fire. If its turn
//     is running already, the asks that it sends from then on have no effect;
//   - a send has its effect once and in order, and what its sender is told of the effect is true.
//
// Each core also checks its own invariants, limits of buffers included.
//
// After the storm there are one active coordinator, one membership and equal tables; every
// shard is served by a living owner that holds the claim, and every entity answers.
//
// # How to use it
//
// A run depends only on climate and seed. SIM_CLIMATE chooses the climate, which is the rates
// of faults: classic, or harsh, which adds faults of its own (see harshWeather). SIM_SEED=7
// go test -run TestSeed runs one seed, SIM_TRACE=1 prints what happens; SIM_SEEDS is the
// number of seeds that TestSeeds runs, SIM_FIRST the first of them. The build tag "mutants" adds
// TestMutants: it removes one guard at a time and shows which seed detects it.
//
// # What this does not do
//
// The drivers here are a few lines each, and drive the same cores as the real ones:
// no encoding, no sockets, no SQL is simulated. Passing seeds prove little by
// themselves; the mutants show that the faults are strong enough to detect errors.
package sim

// Package sim simulates whole clusters: the real cores of gossip, lease,
// coordinator, region, entity execution and gateway, and the real law of the
// journal, on one goroutine, in virtual time, with everything that happens
// drawn from one seed.
//
// A [World] has two coordinators, three regions and often a fourth, two
// gateways, a journal, a lease store, and a few clients that keep a handful of
// entities busy. First there is a storm: packets are lost, doubled and late,
// links break, hosts are cut off in one direction or both, processes crash or
// stop for a while, the journal forgets to say what became of a transaction,
// or does it later, operators drain and stop regions. Then the weather turns
// calm, and everything must finish and converge.
//
// # What is checked
//
// Against the log of commits and the history of the clients, never by asking
// the cores: epochs grow per shard and sequence numbers have no gaps; every
// answer shows the state that its entity had at a moment between call and
// return, which makes every entity linearizable, reads included; what was
// acknowledged is durable, once; a command id has one effect and one reply;
// what was rejected has none; items of a batch take effect in order, and a
// command whose client was told UNKNOWN does not take effect behind one that was
// sent after that through the same gateway; every request ends exactly once, in
// time; the cores' own invariants, limits of buffers included, hold. After the
// storm: one active coordinator, one membership, equal tables, every shard served
// by a living owner that holds the claim, every entity answers.
//
// # How to use it
//
// Climate and seed are all there is to a run. SIM_CLIMATE chooses the climate:
// classic, or harsh, which adds what only it has (see harshWeather). SIM_SEED=7 go test -run TestSeed runs one
// of them, SIM_TRACE=1 prints what happened; SIM_SEEDS and SIM_FIRST choose
// how many TestSeeds runs. The build tag "mutants" adds TestMutants: it removes
// one guard after the other and shows which seed notices.
//
// # What this does not do
//
// The drivers here are a few lines each, and drive the same cores as the real ones:
// no encoding, no sockets, no SQL is simulated. Green seeds prove little by
// themselves; that the mutants die shows that the weather bites.
package sim

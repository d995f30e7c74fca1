// Package load has the clients of the history tests. They call lists over several gateways:
// most calls are writes with a key, some without, some in batches, some sent twice. Every
// call, return and outcome is recorded for package history.
//
// The load is open-loop: a call starts when it is due, however many others wait for an
// answer. It uses HTTP directly, so that it shares no code with what it tests. It does not
// use the loops of e2e/bench/measure: the faults decide how long it runs, and a call beyond
// the limit is not delayed but left out and counted.
//
// # What this does not do
//
// It checks nothing but the form of an answer, and starts no process.
package load

// Package load has the clients of the history tests. They call entities that are lists, over
// several gateways. Most calls are writes with an idempotency key; some have no key, some
// are batches, some are sent twice. Every call, return and outcome is recorded for package
// history.
//
// The load is open-loop: a call starts when it is due, however many others wait for an
// answer. It uses HTTP directly, so that it shares no code with what it tests. It does not
// use the loops of e2e/bench/measure, for two reasons: here the faults decide how long the
// load runs, and a call beyond the limit of open calls is left out and counted, not delayed.
//
// # What this does not do
//
// It checks nothing but the form of an answer, and starts no process.
package load

// Package load has the clients that the history tests run: calls to lists, over
// several gateways, most of them writes with a key, some without, some in
// batches, some sent twice. It notes every call, return and outcome for package
// history to judge.
//
// The load is open-loop: a call starts when its time has come, however many others wait
// for an answer. It speaks HTTP by itself, so that it shares no code with
// what it tests. It does not use the loops of e2e/bench/measure: the faults decide how
// long it runs, and a call beyond the limit is not delayed but left out and counted.
//
// # What this does not do
//
// It judges nothing but the form of an answer, and starts no process.
package load

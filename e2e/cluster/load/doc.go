// Package load is the clients of the tests of histories: calls to lists, over
// several gateways, most of them writes with a key, some without, some in
// batches, some sent twice. It notes every call, return and outcome for package
// history to judge.
//
// It is open: a call starts when its time has come, however many others wait
// for an answer. It speaks HTTP by itself, so that nothing of what it tests is
// on its own side. It does not use the loops of e2e/bench/measure: the faults decide how
// long it runs, and a call beyond the limit is not delayed but left out and counted.
//
// # What this does not do
//
// It judges nothing but the form of an answer, and starts no process.
package load

// Command flights sends flights through a Roost cluster while it injects faults, and then
// verifies that nothing was lost and nothing was counted twice.
//
// It starts a coordinator and a standby, three regions and two gateways as processes on this machine, and
// reads a CSV file with one flight per line. For each flight it sends three durable commands through the
// gateways' public HTTP API: Depart to the origin, Arrive to the destination, and Fly to the route.
// Meanwhile it kills a region, adds one, kills the active coordinator while shards are moving to the new
// region, restarts what it killed, and stops a region by SIGTERM. At the end it reads all totals back from
// the entities through a gateway, and compares them with the file's totals. `flights -help` lists the
// flags.
//
// Every command has an idempotency key, made of the digest of the file, the number of the
// line, and which of the line's three commands it is. So nothing is counted twice, neither
// when a command is repeated nor when the whole demonstration is run again with the same
// -data (the directory of the journal and the logs).
//
// Exit codes: 0 all totals are equal; 1 some differ, or something failed; 2 bad flags; 130
// interrupted. Whatever happens, no process is left behind.
//
// # What this does not do
//
// It is not a benchmark. It cannot import the load generator of e2e/bench, because an example
// imports only what a user may import. So it has a simple closed loop of its own, in which
// every command is repeated until it succeeds.
//
// The latencies are measured at a client that waits for each answer: while the cluster stalls, this client
// sends less. Stalls are therefore reported separately, as the longest time in which an airport with
// waiting commands had no success. -data can be used again within a day: after that, keys expire
// that are older than 24 hours and not among its newest 100,000.
package main

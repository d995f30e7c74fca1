// Package baseline has the programs that Roost is compared with: the same work done by
// hand, without any of the guarantees, as simple as possible while still fast. The servers
// run in a process of their own, which the benchmark starts with [Start] from any binary
// that calls [Serve].
//
// The entity mux is the bound for asks between two processes: no framework, but
// everything that an ask to an entity has to do. One connection, a goroutine per
// caller, protobuf both ways, a string key to a sharded map and its lock. The
// first caller that finds the writer idle yields once and then writes what all have
// appended meanwhile. The server answers on the goroutine that reads, and flushes when it
// has read everything that had arrived.
//
// # What this does not do
//
// Nothing here retries, times out, bounds a buffer or survives anything.
package baseline

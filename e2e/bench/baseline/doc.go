// Package baseline has the programs that Roost is compared with: the same work done by
// hand, without any of the guarantees, as simple as possible while still fast. The servers
// run in a process of their own, which the benchmark starts with [Start] from any binary
// that calls [Serve].
//
// The *entity mux* ([Mux]) shows how many asks (commands with a reply) per second are possible
// between two processes at most. It does everything that an ask to an entity has to do, without
// a framework. All callers, one goroutine each, share one connection. Messages are protobuf both
// ways, and a string key finds the entity in a sharded map with locks. The first caller that
// finds no other one writing yields once, and then writes all that callers have appended meanwhile.
// The server answers on the goroutine that reads, and flushes when it has read everything that
// had arrived.
//
// The *service by hand* replaces a durable entity as a backend developer would write it: net/http, and one
// transaction per request that locks the row of an account and inserts an event.
//
// # What this does not do
//
// Nothing here retries, times out, bounds a buffer or survives anything.
package baseline

// Package cluster has the tests that run real processes, with sockets, disks and signals,
// and use them as any user would.
//
// TestHistories injects faults into the processes of a cluster under load (package load),
// and package history checks what the clients have seen. Each scenario prints a line with
// its figures. The load is open-loop: calls start at a fixed rate, however long earlier
// ones take. Afterwards the journal itself is read, by plain SQL and the documented form of
// its records: acknowledged values are there exactly once, those that were not applied are not.
//
// A run with too few answers is void, because it would prove nothing. It is repeated at
// half the rate over twice the time, so that the scenarios work on a slow or busy machine
// too. If the third run of a scenario is void as well, the test fails.
//
// The scenarios take minutes and run only on request: the most important ones with E2E=short
// (make e2e SET=short), all with E2E=full (make e2e). Most run with the journal in SQLite and
// again with PostgreSQL. Where processes are cut off from each other, each has a network of
// its own (package netns). A scenario that needs root, /proc, ip, strace or a PostgreSQL
// server is skipped with a message where that is missing.
//
// TestMembership injects faults into seven members without load. It asks each of them,
// standbys included, for its own view, by the Membership service of the management listener.
// It checks that
//
//   - a removed member never comes back,
//   - processes that cannot reach each other do not both continue,
//   - a member that is declared down logs that and ends, and
//   - in the end all members have the same view.
//
// docs/inside/membership.md has a table of the proofs.
//
// TestMoves drains and restarts regions while clients call volatile entities that keep their
// state on moves. Every answer must be one more than the one before.
//
// In TestEntities, entities act without clients and with each other while processes fail. The test
// reads their work from the journal:
//
//   - reminders: each fires once, and none early, through kills of regions and a full stop. The
//     99th percentile of the lateness is at most 1 s. Lateness counts from the time at which the
//     firing was due or, if its shard did not answer at that time, from the shard's next answer.
//   - sends: what one entity sends to another one takes effect once and in order, through kills
//     and drains.
//   - asks: entities ask each other in four ways: while regions are killed; in circles (one turn gives
//     up); within a shard that is handed off; and 100,000 at once (those without room are refused).
//   - million: one shard has a million reminders. Its region takes at most 64 MiB more memory than
//     without them, and its first answer after a cold start comes at most 2 s later
//     than without them.
//   - remembered: 100,000 remembered entities are active within a minute after a cold start, and
//     the 99th percentile of the latency meanwhile is at most twice that of the same traffic
//     afterwards, or 20 ms.
//   - deletion: there are a million events of 1 KiB, and nine of ten entities are deleted. A
//     repeated command gets the answer that the original got. Once its key has expired, the
//     repeat is refused, still without effect. In the end the file has at most a quarter of its greatest length.
//
// TestExplain injects the causes that delay or fail commands, and has each coordinator and gateway
// explain an entity: it must name the right cause first.
//
// TestRepairs damages a fact of the coordinators by SQL. No coordinator can take over, and each names the remedy. A repair
// is refused while one is active. After a repair the standby takes over at a higher term, and the former coordinator, which was
// paused meanwhile, changes nothing.
//
// TestMemory gives a region ten times the entities that fit into its memory. It runs on request
// too (make e2e-memory).
//
// # What this does not do
//
// It does not look into the processes: it checks what they answer, export and store. It does
// not judge speed, except for the bounds of TestEntities that are named above: gaps and rates
// are printed, and the only limit is the number of answers below which a run is void. It does
// not simulate power failures: data that a killed process had written to the page cache
// survives. Journal and lease are both in SQLite files, or both on the same PostgreSQL server.
// Processes that are cut off from each other still reach a file, but may be cut off from the
// server.
package cluster

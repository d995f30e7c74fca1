// Package cluster holds the tests that run real processes: built binaries,
// sockets, disks and signals, spoken to as any user would.
//
// TestHistories hurts the processes of a cluster that is under load and lets
// package history judge what its clients have seen. Each scenario prints a line
// with its figures. The load is open: calls start at a fixed rate, by several
// clients over two gateways, most of them writes with a key, some without, some
// in batches, some sent twice. A run with too few answers is void, and fails:
// it would prove nothing; so they want a machine that does nothing else, and run
// only when asked for: the most telling ones with E2E=short, all with E2E=full
// (make e2e). Those that need root, /proc or strace say so and are skipped
// without.
//
// # What this does not do
//
// It does not look into the processes: what it checks is what they answer, and
// what they tell their collectors. It does not cut networks, and takes no disk
// away from under the system: killed processes leave what they wrote to the
// page cache.
package cluster

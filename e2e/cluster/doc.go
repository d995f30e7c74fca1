// Package cluster holds the tests that run real processes: built binaries,
// sockets, disks and signals, spoken to as any user would.
//
// TestHistories hurts the processes of a cluster that is under load and lets
// package history judge what its clients have seen. Each scenario prints a line
// with its figures. The load is open: calls start at a fixed rate, by several
// clients over two gateways, most of them writes with a key, some without, some
// in batches, some sent twice. Afterwards the journal itself is read, by plain
// SQL and the documented form of its records, and compared as well: what was
// acknowledged is there once, what was rejected is not.
//
// A run with too few answers is void: it would prove nothing. It is repeated at
// half the rate over twice the time, and the third void one fails. So the
// scenarios run on a slow or busy machine too; they take minutes, and run only
// when asked for: the most telling ones with E2E=short (make e2e SET=short), all
// with E2E=full (make e2e). Most run with the journal in SQLite and again with
// PostgreSQL. Where processes are cut off from each other, each has a network of
// its own (package netns). Those that need root, /proc, ip, strace or a
// PostgreSQL server say so and are skipped without.
//
// TestMembership does the same to seven members without load, and asks every one
// of them, regions and standbys alike, for its own view by the Membership
// service of the management listener. Who was removed never comes back,
// processes that cannot reach each other do not go on beside each other, who is
// declared down says so and ends, and in the end all hold one view.
// docs/membership.md has the table of what proves what.
//
// # What this does not do
//
// It does not look into the processes: what it checks is what they answer, what
// they tell their collectors, and what they store. It judges no speed: gaps and
// rates are printed, and only what makes a run void is compared with a limit. It
// takes no disk away from under the system: killed processes leave what they
// wrote to the page cache. The lease is where the journal is: on
// SQLite it stays in reach of who is cut off, on PostgreSQL it does not.
package cluster

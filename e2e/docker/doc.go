// Package docker has the tests that run whole clusters in containers, with real servers:
//
//	backend   discovery  lease       journal
//	consul    Consul     Consul      SQLite
//	etcd      etcd       etcd        SQLite
//	dns       DNS        etcd        SQLite
//	postgres  DNS        PostgreSQL  PostgreSQL, on a server of its own
//
// The SQLite file is on a volume that the coordinators and regions of a cluster share.
//
// For each backend, TestBackends creates an isolated network with its servers, three
// coordinators, three regions and two gateways. The processes get the URLs of the
// servers, but no address of each other. While clients write and read,
//
//   - the cluster is scaled,
//   - a server is stopped for a minute: the lease's or, with backend dns, discovery's,
//   - the active coordinator is killed by SIGKILL, and later cut off by firewall rules, and
//   - finally all containers are killed at once.
//
// As in package cluster, package history checks what the clients saw and compares it with
// the journal. Every scenario prints a line with its figures.
//
// Nothing is pulled: images are made from static binaries, the Consul that "make servers"
// builds, and the etcd and PostgreSQL of this machine with their libraries. Everything that
// is created is labelled, and removed at the end, after an interrupt, or by the next run. So
// an engine can have one run at a time.
//
// The tests take minutes, and run only on request: make e2e-docker. Without an engine or
// a server's program they are skipped with a message.
//
// # What this does not do
//
// It does not judge speed: figures are printed, and only violations of guarantees fail a
// test. It reaches containers by their addresses, so the engine must be on this machine. All
// containers share one clock and one disk.
package docker

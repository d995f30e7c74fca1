// Package docker holds the tests that run whole clusters in containers, against
// the servers that processes find each other by: Consul, etcd, DNS, PostgreSQL.
//
// TestBackends makes, for each of them, a network that nothing leads out of,
// with the servers, three coordinators, three regions and two gateways. The
// processes know nothing of each other but a URL. While clients write and read,
// the cluster is scaled, loses its servers for a minute, its active coordinator
// by SIGKILL and by firewall rules, and in the end all its containers at once.
// What the clients saw is judged by package history, and compared with the
// journal, as in package cluster. Every scenario prints a line with its figures.
//
// Nothing is pulled: images are made from nothing but static binaries, the Consul
// that "make servers" builds, and the etcd and PostgreSQL of this machine with
// the libraries that they name. Everything made is labelled, and removed at the
// end, after an interrupt, and by the next run. So one run at a time is possible
// on an engine.
//
// The tests take minutes, and run only when asked for: make e2e-docker. Without
// an engine, or a server's program, they are skipped and say so.
//
// # What this does not do
//
// It judges no speed: figures are printed, and only what must never be is
// compared with a limit. It reaches containers by their addresses, so the engine
// must be on this machine. All containers share one clock and one disk.
package docker

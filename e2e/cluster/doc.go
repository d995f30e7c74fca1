// Package cluster holds the tests that run real processes: built binaries,
// sockets, disks and signals, spoken to as any user would.
//
// # What this does not do
//
// It does not look into the processes: what it checks is what they answer,
// and what they tell their collectors.
package cluster

// Package checkup finds what is unsafe or unwise in how a cluster is set up. It knows the cluster by what the processes
// say about themselves.
//
//	advice := checkup.Examine(&checkup.Evidence{Processes: processes, Silent: silent})
//
// # What this does not do
//
// It asks no process: the driver of the coordinator does. It does not look at what happens to commands now, see package
// diagnosis.
package checkup

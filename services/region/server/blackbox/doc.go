// Package blackbox keeps, in a file that outlives the process, which turns of entities run. When a process
// of a region has ended, the next one reads from the file which turns ran then: the command of an entity may
// have ended the process.
//
// The file is mapped into memory, so that noting a turn costs no system call. The kernel keeps what the process
// has written to the mapping, however the process ends. A second file has what the Go runtime writes when it
// ends the process: an unrecovered panic, or a fatal error. A parent that waits for the process adds its exit
// status ([Ended]).
//
// # What this does not do
//
// What was noted does not outlive the machine, or the disk of a container that is replaced. Only a limited
// number of turns is noted at a time. On systems other than Unix nothing is noted.
package blackbox

//go:build unix && !linux

package cluster

import "syscall"

// attributes puts a process into a process group of its own, out of reach of
// the terminal's Ctrl-C.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

package cluster

import "syscall"

// attributes puts a process into a process group of its own, out of reach of
// the terminal's Ctrl-C, and asks the kernel to kill it when the launcher's
// thread ends. That covers the time until the process watches the launcher.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

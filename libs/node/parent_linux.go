package node

import "golang.org/x/sys/unix"

// dieWithParent asks the kernel to kill this process when its parent dies. It reports whether the kernel will.
func dieWithParent() bool {
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) == nil
}

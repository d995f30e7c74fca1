package node

import "golang.org/x/sys/unix"

// dieWithParent asks the kernel to kill this process when its parent dies. An error is
// harmless, because polling continues.
func dieWithParent() {
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

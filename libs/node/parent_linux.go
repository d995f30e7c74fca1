package node

import "golang.org/x/sys/unix"

// dieWithParent asks the kernel for a kill at the parent's death. Refusal is
// harmless: the poll goes on.
func dieWithParent() {
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

package node

import (
	"os"
	"time"
)

// parentPoll is how often a process looks whether its parent is still there,
// where the kernel does not tell.
const parentPoll = 200 * time.Millisecond

// The parent at the very start: what follows it on its death is not the parent.
var firstParent = os.Getppid()

// exitWithParent ends this process when its parent has died, however it died.
// There is nobody left to drain for, so the end is immediate. On Linux the
// kernel kills it, even a stopped one; elsewhere, and should the parent have died
// before the kernel was asked, a poll notices.
//
// The kernel watches the parent's thread: a parent that starts children from a
// goroutine locked to a thread must keep that goroutine.
func exitWithParent() {
	dieWithParent()
	go func() {
		for os.Getppid() == firstParent {
			time.Sleep(parentPoll)
		}
		os.Exit(1)
	}()
}

package node

import (
	"os"
	"time"
)

// parentPoll is the interval at which a process checks whether its parent exists, on
// systems whose kernel does not report that.
const parentPoll = 200 * time.Millisecond

// firstParent is the parent at the start. After its death the process gets another one.
var firstParent = os.Getppid()

// exitWithParent ends this process when its parent has died for any reason. Nothing waits for a
// drain, so it exits at once. On Linux the kernel kills it, even if it is stopped. Elsewhere
// polling notices.
//
// The kernel watches the parent's thread: a parent that starts children from a goroutine
// locked to a thread must keep that goroutine.
func exitWithParent() {
	told := dieWithParent()
	if os.Getppid() != firstParent {
		os.Exit(1)
	}
	if told {
		return
	}
	go func() {
		for os.Getppid() == firstParent {
			time.Sleep(parentPoll)
		}
		os.Exit(1)
	}()
}

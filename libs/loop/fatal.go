package loop

import (
	"fmt"
	"runtime/debug"
)

// Fatal, when it is deferred, makes a panic end the process. Code that steps a core on a goroutine of another
// package needs it: net/http, for one, recovers from the panics of handlers. A core that has panicked may be half
// changed, so it must not be stepped again. When the process has ended, others take over its part.
//
// Invariant: a core that has panicked is never stepped again, since its state may be half changed: the process ends,
// and others take over.
// Guarded by: loops and stages do not recover (`node.Stage.Run`). Where the caller would, as net/http does,
// `loop.Fatal` ends the process (`shardLoop.runInline`). `make attack` injects panics into all cores.
func Fatal() {
	p := recover()
	if p == nil {
		return
	}
	text := fmt.Sprintf("%v\n\n%s", p, debug.Stack())
	go panic(text) // a new goroutine recovers nothing
	select {}      // the callers must not go on
}

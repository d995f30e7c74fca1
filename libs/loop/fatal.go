package loop

import (
	"fmt"
	"runtime/debug"
)

// Fatal, when it is deferred, makes a panic end the process. Code that steps a core on a goroutine of another
// package needs it: net/http, for one, recovers from the panics of handlers. A core that has panicked may be half
// changed, so it must not be stepped again. When the process has ended, others take over its part.
func Fatal() {
	p := recover()
	if p == nil {
		return
	}
	text := fmt.Sprintf("%v\n\n%s", p, debug.Stack())
	go panic(text) // a new goroutine recovers nothing
	select {}      // the callers must not go on
}

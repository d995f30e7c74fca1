package loop

import (
	"fmt"
	"runtime/debug"
)

// Fatal, when it is deferred, makes a panic end the process. Who steps a core on a goroutine of somebody else needs
// it: net/http, for one, recovers from the panics of handlers. A core that has panicked may be half changed, so
// nobody may step it again. When the process has ended, others take over what it had.
func Fatal() {
	p := recover()
	if p == nil {
		return
	}
	text := fmt.Sprintf("%v\n\n%s", p, debug.Stack())
	go panic(text) // nobody recovers on a new goroutine
	select {}      // the callers must not go on
}

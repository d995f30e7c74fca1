package loop

import (
	"sync"

	"github.com/roost-cluster/roost/libs/foreign"
)

// Apart calls f on a goroutine of its own, waits until that goroutine has ended, and reports whether f returned. It
// is for code of users: runtime.Goexit in f would end the goroutine that calls f, which may own a core, or be the
// only one that answers a caller. Nothing can stop a Goexit, so it must hit a goroutine that does nothing else. If f
// panics, Apart panics with the text of the value, which is taken there: the value's own methods are code of users too.
func Apart(f func()) (returned bool) {
	panicked, text := false, ""
	var end sync.WaitGroup
	end.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				text = foreign.Text(p)
				panicked = true // here, if the goroutine has not ended meanwhile
			}
		}()
		f()
		returned = true
	})
	end.Wait()
	if panicked {
		panic(text)
	}
	return returned
}

package loop

import "sync"

// Apart calls f on a goroutine of its own, waits until that goroutine has ended, and reports whether f returned. It
// is for code of users: runtime.Goexit in f would end the goroutine that calls f, which may own a core, or be the
// only one that answers a caller. Nothing can stop a Goexit, so it must hit a goroutine that does nothing else. If f
// panics, Apart panics with the same value.
func Apart(f func()) (returned bool) {
	var panicked any
	var end sync.WaitGroup
	end.Go(func() {
		defer func() { panicked = recover() }()
		f()
		returned = true
	})
	end.Wait()
	if panicked != nil {
		panic(panicked)
	}
	return returned
}

package cluster

import "runtime"

// launcher starts processes from one thread that lives as long as the
// launcher: the kernel kills a process when the *thread* that started it ends,
// and Go ends threads at will.
type launcher struct {
	orders chan order
}

type order struct {
	start func() error
	done  chan error
}

func newLauncher() *launcher {
	l := &launcher{orders: make(chan order)}
	go func() {
		runtime.LockOSThread() // Never unlocked: the thread ends with this goroutine.
		for o := range l.orders {
			o.done <- o.start()
		}
	}()
	return l
}

func (l *launcher) start(start func() error) error {
	o := order{start, make(chan error, 1)}
	l.orders <- o
	return <-o.done
}

// close ends the thread, and with it what it started.
func (l *launcher) close() { close(l.orders) }

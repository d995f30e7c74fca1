package cluster

import (
	"os/exec"
	"runtime"
)

// launcher starts processes from one thread that lives as long as the
// launcher: the kernel kills a process when the *thread* that started it ends,
// and Go ends threads at will.
type launcher struct {
	orders chan order
}

type order struct {
	cmd  *exec.Cmd
	done chan error
}

func newLauncher() *launcher {
	l := &launcher{orders: make(chan order)}
	go func() {
		runtime.LockOSThread() // Never unlocked: the thread ends with this goroutine.
		for o := range l.orders {
			o.done <- o.cmd.Start()
		}
	}()
	return l
}

func (l *launcher) start(cmd *exec.Cmd) error {
	o := order{cmd, make(chan error, 1)}
	l.orders <- o
	return <-o.done
}

// close ends the thread, and with it what it started.
func (l *launcher) close() { close(l.orders) }

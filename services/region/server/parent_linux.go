package server

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"

	"github.com/roost-cluster/roost/services/region/server/blackbox"
)

// parentEnv names an environment variable with the number of an open pipe. A region writes to it where its box is, so
// that its parent can write into the box how the region has ended.
const parentEnv = "ROOST_PARENT_PIPE"

// forwarded are the signals that the first process of a container passes on to the region.
var forwarded = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// asParent makes the first process of a container (PID 1) the parent of the region, and returns the region's exit code
// when the region has ended: os.Exit in the code of an entity leaves no trace but the exit status, and only a parent
// sees that. The parent does not start the region again: that is left to what has started the container. ok is false
// if this process is to be the region.
func asParent() (code int, ok bool) {
	if os.Getpid() != 1 {
		return 0, false
	}
	program := filepath.Base(os.Args[0])
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	child, told, err := startChild()
	if err != nil {
		signal.Reset(forwarded...)
		fmt.Fprintf(os.Stderr, "%s: this process cannot wait for the region, so an os.Exit in the code of an entity will leave no evidence: %v\n", program, err)
		return 0, false
	}
	go func() {
		for s := range signals {
			_ = child.Signal(s) // an error means that it has ended
		}
	}()
	debug.FreeOSMemory() // returns the memory of the packages' setup: this process only waits
	status, err := reap(child.Pid)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: wait for the region: %v\n", program, err)
		return 1, true
	}
	box := make([]byte, 4096) // the longest path
	if n, _ := syscall.Read(told, box); n > 0 {
		if err := blackbox.Ended(string(box[:n]), status.Signaled(), exitNumber(status)); err != nil {
			fmt.Fprintf(os.Stderr, "%s: the next process will not know how this region has ended: %v\n", program, err)
		}
	}
	if status.Signaled() {
		return 128 + exitNumber(status), true // as in shells
	}
	return exitNumber(status), true
}

// exitNumber returns the exit status, or the number of the signal.
func exitNumber(s syscall.WaitStatus) int {
	if s.Signaled() {
		return int(s.Signal())
	}
	return s.ExitStatus()
}

// startChild starts this program once more. told is a pipe that does not block: when the child has ended, all that it
// has told is in there.
func startChild() (child *os.Process, told int, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, 0, err
	}
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		return nil, 0, err
	}
	tell := os.NewFile(uintptr(pipe[1]), "pipe")
	defer func() { _ = tell.Close() }() // the child has its own
	cmd := exec.Command(self)
	cmd.Args = os.Args
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{tell} // number 3
	cmd.Env = append(os.Environ(), parentEnv+"=3")
	// Ctrl-C in a terminal goes to all of a process group. The child would get it twice, and leave at once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		_ = syscall.Close(pipe[0]) // nothing was written
		return nil, 0, err
	}
	return cmd.Process, pipe[0], nil
}

// reap waits for the end of a child. Meanwhile it takes in the ends of processes that have lost their parent, which the
// kernel gives to the first process of a container.
func reap(child int) (syscall.WaitStatus, error) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid == child {
			return status, err
		}
	}
}

// tellParent sends the path of this region's box to the parent, if the parent runs asParent.
func tellParent(path string) {
	value, ok := os.LookupEnv(parentEnv)
	if !ok {
		return
	}
	_ = os.Unsetenv(parentEnv) // the name is valid
	fd, err := strconv.Atoi(value)
	var is syscall.Stat_t
	if err != nil || syscall.Fstat(fd, &is) != nil || is.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return // another program has set it
	}
	pipe := os.NewFile(uintptr(fd), "pipe")
	_, _ = pipe.WriteString(path) // without it, the parent writes nothing
	_ = pipe.Close()
}

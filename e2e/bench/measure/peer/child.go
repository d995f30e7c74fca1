package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// serve is the argument that makes a program serve.
const serve = "serve"

// Child is a process of a program that serves.
type Child struct {
	// Address is the address that it reported with [Serving].
	Address string
	PID     int
	cmd     *exec.Cmd
	stdin   io.Closer
}

// Start starts this program again, to serve. It returns when the child has called [Serving].
func Start(args ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{serve}, args...)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &Child{PID: cmd.Process.Pid, cmd: cmd, stdin: stdin}
	if err := json.NewDecoder(stdout).Decode(&c.Address); err != nil {
		return nil, errors.Join(fmt.Errorf("process %d did not say where it serves: %w", c.PID, err), c.Kill())
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return c, nil
}

// Serving says to the parent where this process serves, and waits until the parent has ended or has closed the child.
func Serving(address string) error {
	if err := json.NewEncoder(stdout).Encode(address); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// Kill ends the process as kill -9 does.
func (c *Child) Kill() error {
	_ = c.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	_ = c.cmd.Wait()                          // it was killed
	return nil
}

// Close ends the process. Nothing is measured any more, so that it need not end in order.
func (c *Child) Close() error {
	_ = c.stdin.Close()
	return c.Kill()
}

// Pids returns the pids of processes.
func Pids(cs ...*Child) (pids []int) {
	for _, c := range cs {
		pids = append(pids, c.PID)
	}
	return pids
}

// Close closes several.
func Close(cs ...*Child) error {
	var errs []error
	for _, c := range cs {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/roost-cluster/roost/libs/node"
)

// The state of a process.
const (
	Starting = "starting" // forked, listeners not bound yet
	Running  = "running"
	Stopping = "stopping" // told to end gracefully
	Stopped  = "stopped"  // ended gracefully: as told, or by leaving the cluster
	Killed   = "killed"   // ended by Kill
	Died     = "died"     // ended unexpectedly
)

// Process is one process of the cluster.
type Process struct {
	Name  string `json:"name"`
	Role  string `json:"role"`
	State string `json:"state"`
	// PID is 0 when the process is not alive.
	PID int `json:"pid,omitempty"`
	// Service and Management are the addresses of its listeners, as host:port.
	Service    string `json:"service"`
	Management string `json:"management"`
	// Log is the file with everything it printed.
	Log string `json:"log"`
	// Reason describes how it ended, for example "exit status 2" or "signal: killed".
	Reason string `json:"reason,omitempty"`
	// LastLines are the last lines of its output, if it died.
	LastLines []string `json:"last_lines,omitempty"`
}

const (
	// addressPoll is the pause between two checks for the address file.
	addressPoll = 5 * time.Millisecond
	// tailLines and tailBytes bound the end of the log that is shown when a process dies.
	tailLines, tailBytes = 10, 8 << 10
)

// How coordinators find each other: a member announces the cluster four times per
// stableFor, and joining takes at most askEvery longer than stableFor.
const stableFor, askEvery = "500ms", "100ms"

// child is one process name over all its starts. All fields but the constant
// first ones are guarded by Cluster.mu.
type child struct {
	name, role          string
	service, management string
	log, addresses      string

	state   string
	wanted  string // the state its next end leads to
	process *os.Process
	exited  chan struct{} // closed at the end of the current start
	started int64         // size of the log then, in bytes
	reason  string
	exit    string // how its last process has ended, as its parent sees it; empty: there was none
	last    []string
}

func (c *child) alive() bool { return c.process != nil }

func (c *child) info() Process {
	p := Process{
		Name: c.name, Role: c.role, State: c.state, Service: c.service, Management: c.management,
		Log: c.log, Reason: c.reason, LastLines: c.last,
	}
	if c.process != nil {
		p.PID = c.process.Pid
	}
	return p
}

// arguments are the command line of a child.
func (c *Cluster) arguments(p *child) ([]string, error) {
	o := &c.options
	args := []string{
		"--cluster.name=" + o.Name, "--node.name=" + p.name, "--node.address_file=" + p.addresses,
		"--node.exit_with_parent=true", "--service.listen=" + p.service, "--management.listen=" + p.management,
		"--discovery.url=static:" + strings.Join(c.seeds, ","), "--log.level=" + o.LogLevel,
	}
	if p.role != Gateway {
		if o.Journal == "" {
			args = append(args, "--journal.url="+c.journal())
		}
		// All coordinators are known and on one machine. The only thing to wait for is
		// that members of the cluster announce it to a coordinator that comes back.
		stable := stableFor
		if c.forming {
			stable = "0s"
		}
		args = append(args, "--discovery.required_contacts="+strconv.Itoa(o.Coordinators),
			"--discovery.stable_for="+stable, "--discovery.interval="+askEvery)
	}
	if p.role == Coordinator {
		if o.Regions > 0 {
			// Otherwise the region that is up first would get all the first shards.
			args = append(args, "--coordinator.min_regions="+strconv.Itoa(o.Regions))
		}
	}
	if c.security != nil {
		host, _, err := net.SplitHostPort(p.service)
		if err != nil {
			return nil, err
		}
		secured, err := c.security.arguments(p.role, p.name, host)
		if err != nil {
			return nil, err
		}
		args = append(args, secured...)
	}
	return slices.Concat(args, o.Args[p.role], o.Args[p.name]), nil
}

// environment returns the launcher's environment, without the variables that are meant for
// the roost command alone or are replaced.
func (c *Cluster) environment() []string {
	var env []string
	for _, entry := range os.Environ() {
		switch name, _, _ := strings.Cut(entry, "="); name {
		case "ROOST_ADMIN", "ROOST_ADMIN_TOKEN", "ROOST_CA", "ROOST_CERT", "ROOST_DIR", "ROOST_GATEWAY", "ROOST_KEY", "ROOST_TOKEN":
		case "ROOST_LEASE_URL_FILE": // besides the lease's URL, which is given below, it is refused
		case "ROOST_JOURNAL_URL", "ROOST_JOURNAL_URL_FILE":
		case "ROOST_JOURNAL_DATABASES", "ROOST_JOURNAL_DATABASES_FILE", "ROOST_JOURNAL_TYPES":
			if c.options.Journal != "" { // they belong to that journal, and not to one that is made here
				env = append(env, entry)
			}
		default:
			env = append(env, entry)
		}
	}
	// Not by flags: the URLs may hold a password, and anybody may list command lines.
	env = append(env, "ROOST_LEASE_URL="+c.options.Lease)
	if c.options.Journal != "" {
		env = append(env, "ROOST_JOURNAL_URL="+c.options.Journal)
	}
	return append(env, c.options.Env...)
}

// fork starts the process of a child and watches for its end.
func (c *Cluster) fork(p *child) (err error) {
	if err := os.Remove(p.addresses); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // The process has its own copy.
	args, err := c.arguments(p)
	if err != nil {
		return err
	}
	cmd := exec.Command(c.options.binary(p.role), args...)
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.SysProcAttr = out, out, c.environment(), attributes()

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	if p.role == Region && p.exit != "" {
		cmd.Env = append(cmd.Env, "ROOST_REGION_LAST_EXIT="+p.exit)
	}
	if p.alive() {
		return fmt.Errorf("%s is running already", p.name)
	}
	if info, err := out.Stat(); err == nil {
		p.started = info.Size()
	}
	if err := c.launcher.start(func() error { return c.options.Start(p.name, cmd) }); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.process, p.exited, p.wanted, p.reason, p.last = cmd.Process, make(chan struct{}), Died, "", nil
	c.change(p, Starting)
	go c.reap(p, cmd)
	return nil
}

// reap waits for the end of a process.
func (c *Cluster) reap(p *child, cmd *exec.Cmd) {
	err := cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	p.process = nil
	p.reason, p.exit = "exit status 0", cmd.ProcessState.String()
	if err != nil {
		p.reason = err.Error()
	} else if p.wanted == Died {
		p.wanted = Stopped
	}
	if p.wanted == Died {
		p.last = tail(p.log, p.started)
	}
	c.change(p, p.wanted)
	close(p.exited)
}

// bound waits until a child has bound its listeners.
func (c *Cluster) bound(ctx context.Context, p *child) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.StartTimeout)
	defer cancel()
	c.mu.Lock()
	exited := p.exited
	c.mu.Unlock()
	poll := time.NewTicker(addressPoll)
	defer poll.Stop()
	for {
		var at node.Addresses
		content, err := os.ReadFile(p.addresses)
		if err == nil && json.Unmarshal(content, &at) == nil {
			c.mu.Lock()
			if p.state == Starting {
				c.change(p, Running)
			}
			c.mu.Unlock()
			return nil
		}
		select {
		case <-exited:
			return c.death(p)
		case <-ctx.Done():
			return fmt.Errorf("%s did not open its listeners in time: %w; see %s", p.name, context.Cause(ctx), p.log)
		case <-poll.C:
		}
	}
}

// death is the error of a child that ended when it should not.
func (c *Cluster) death(p *child) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	message := fmt.Sprintf("%s ended at its start (%s)", p.name, p.reason)
	if len(p.last) > 0 {
		message += ":\n  " + strings.Join(p.last, "\n  ")
	}
	return errors.New(message)
}

// end sends a signal that is meant to end a child.
func (c *Cluster) end(p *child, signal os.Signal, wanted string) (exited chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.alive() {
		return nil, fmt.Errorf("%s is not running", p.name)
	}
	p.wanted = wanted
	if wanted == Stopped {
		c.change(p, Stopping)
	}
	// An error means that it ended on its own a moment ago.
	_ = p.process.Signal(signal)
	return p.exited, nil
}

// kill ends a child at once; it works for a stopped process too.
func (c *Cluster) kill(p *child) error {
	exited, err := c.end(p, syscall.SIGKILL, Killed)
	if err == nil {
		<-exited
	}
	return err
}

// tail reads the last lines of a log from an offset on.
func tail(path string, from int64) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	begin := max(from, size-tailBytes)
	content, err := io.ReadAll(io.NewSectionReader(file, begin, size-begin))
	if err != nil {
		return nil
	}
	lines := strings.Split(string(bytes.TrimSpace(content)), "\n")
	if begin > from {
		lines = lines[1:] // Cut in the middle.
	}
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines
}

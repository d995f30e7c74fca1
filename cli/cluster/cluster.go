package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/roost-cluster/roost/libs/adminclient"
)

// ErrUnknown is wrapped by errors about a name that no process has.
var ErrUnknown = errors.New("no such process")

var errClosed = errors.New("the cluster is closed")

// Cluster is a running cluster. Its methods may be called from any goroutine.
type Cluster struct {
	options  Options
	seeds    []string // service addresses of all coordinators
	forming  bool     // all processes start for the first time, so there is no cluster yet; only [Start] changes it
	launcher *launcher
	unlock   func()
	http     *http.Client
	security *security // nil: no TLS

	mu       sync.Mutex
	ports    ports
	children []*child // in the order in which they were added
	closed   bool
	closing  sync.Once
	closeErr error
}

// Start starts all processes and returns when their listeners are bound; see
// [Cluster.Ready] for when they serve. On an error nothing is left running. An
// error names what to change: a [*PortError] a taken port, ErrNoBinary a missing
// binary, ErrLocked a directory in use.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{"logs", "run"} {
		if err := os.MkdirAll(filepath.Join(options.Dir, dir), 0o755); err != nil {
			return nil, fmt.Errorf("the cluster's directory %s cannot be used: %w", options.Dir, err)
		}
	}
	unlock, err := Lock(filepath.Join(options.Dir, "lock"))
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		options: options, unlock: unlock, launcher: newLauncher(), ports: ports{taken: map[int]bool{}},
		http: &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4}},
	}
	err = c.startSecurity()
	if err == nil {
		c.forming = true
		err = c.startAll(ctx)
		c.forming = false
	}
	if err != nil {
		// The error of the start is returned. Errors of this hasty Close say less.
		at, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(at)
		return nil, err
	}
	return c, nil
}

func (c *Cluster) startAll(ctx context.Context) error {
	for _, group := range []struct {
		role  string
		count int
	}{{Coordinator, c.options.Coordinators}, {Region, c.options.Regions}, {Gateway, c.options.Gateways}} {
		for range group.count {
			p, err := c.add(group.role)
			if err != nil {
				return err
			}
			if group.role == Coordinator {
				c.seeds = append(c.seeds, p.service)
			}
		}
	}
	// The first failure ends the start. The errors that this causes in other processes are
	// not reported.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failures := make(chan error, len(c.children))
	_ = c.each(c.children, func(p *child) error {
		err := c.launch(ctx, p)
		if err != nil {
			failures <- err
			cancel()
		}
		return err
	})
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// add makes a child and chooses its addresses, but does not start it.
func (c *Cluster) add(role string) (*child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := 1
	for _, p := range c.children {
		if p.role == role {
			number++
		}
	}
	p := &child{role: role, name: role + "-" + strconv.Itoa(number), state: Starting}
	p.log = filepath.Join(c.options.Dir, "logs", p.name+".log")
	p.addresses = filepath.Join(c.options.Dir, "run", p.name+".json")
	at := c.options.Address(p.name)
	random := func() (string, error) { return c.ports.random(at) }
	service, management := random, random
	if c.options.Ports == Fixed && role == Gateway {
		service = func() (string, error) { return c.ports.fixed(at, gatewayPort+number-1, p.name) }
	}
	if c.options.Ports == Fixed && role == Coordinator {
		service = func() (string, error) { return c.ports.fixed(at, coordinatorPort+number-1, p.name) }
		management = func() (string, error) { return c.ports.fixed(at, adminPort+number-1, p.name) }
	}
	var err error
	if p.service, err = service(); err != nil {
		return nil, err
	}
	if p.management, err = management(); err != nil {
		return nil, err
	}
	c.children = append(c.children, p)
	return p, nil
}

// launch starts a child and waits for its listeners.
func (c *Cluster) launch(ctx context.Context, p *child) error {
	if err := c.fork(p); err != nil {
		return err
	}
	return c.bound(ctx, p)
}

// AddRegion starts one more region and returns its name.
func (c *Cluster) AddRegion(ctx context.Context) (string, error) {
	p, err := c.add(Region)
	if err != nil {
		return "", err
	}
	return p.name, c.launch(ctx, p)
}

// Kill ends a process by SIGKILL and waits for its end.
func (c *Cluster) Kill(name string) error {
	p, err := c.find(name)
	if err != nil {
		return err
	}
	return c.kill(p)
}

// Stop ends a process gracefully, by SIGTERM, and waits for its end. If ctx ends first, Stop
// returns an error, and the process continues to stop.
func (c *Cluster) Stop(ctx context.Context, name string) error {
	p, err := c.find(name)
	if err != nil {
		return err
	}
	exited, err := c.end(p, syscall.SIGTERM, Stopped)
	if err != nil {
		return err
	}
	select {
	case <-exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has not stopped yet: %w", name, context.Cause(ctx))
	}
}

// Restart starts a process again, with the same name and addresses. If the process still
// runs, it is stopped first.
func (c *Cluster) Restart(ctx context.Context, name string) error {
	p, err := c.find(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	alive := p.alive()
	c.mu.Unlock()
	if alive {
		if err := c.Stop(ctx, name); err != nil {
			return err
		}
	}
	return c.launch(ctx, p)
}

// Signal sends a signal to a process, such as SIGSTOP or SIGCONT. If the signal ends the
// process, that is reported as an unexpected death: use Kill and Stop to end processes.
func (c *Cluster) Signal(name string, signal os.Signal) error {
	p, err := c.find(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.alive() {
		return fmt.Errorf("%s is not running", name)
	}
	return p.process.Signal(signal)
}

func (c *Cluster) find(name string) (*child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.children {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrUnknown, name)
}

// Processes lists all processes, those that ended included, in order of their
// first start.
func (c *Cluster) Processes() []Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes()
}

func (c *Cluster) processes() []Process {
	list := make([]Process, 0, len(c.children))
	for _, p := range c.children {
		list = append(list, p.info())
	}
	return list
}

// Gateways returns the base URLs of the public API, one per gateway.
func (c *Cluster) Gateways() []string { return urls(c.Processes(), Gateway, c.security != nil) }

// Admin returns the base URLs of the coordinators' management, for adminclient.New.
func (c *Cluster) Admin() []string { return urls(c.Processes(), Coordinator, false) }

// Active asks which coordinator is active, and its term.
func (c *Cluster) Active(ctx context.Context) (name string, term uint32, err error) {
	members, err := adminclient.New(c.Admin()...).Members(ctx)
	if err != nil {
		return "", 0, err
	}
	return members.Self, members.Term, nil
}

// Close stops everything gracefully: gateways, then regions, then coordinators. If ctx ends
// first, Close kills the remaining processes and returns an error that names them. Close returns
// when no process is left.
func (c *Cluster) Close(ctx context.Context) error {
	c.closing.Do(func() { c.closeErr = c.close(ctx) })
	return c.closeErr
}

func (c *Cluster) close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true // Nothing starts from here on.
	children := c.children
	c.mu.Unlock()
	var problems []error
	for _, role := range []string{Gateway, Region, Coordinator} {
		var group []*child
		for _, p := range children {
			if p.role == role {
				group = append(group, p)
			}
		}
		problems = append(problems, c.each(group, func(p *child) error { return c.shut(ctx, p) }))
	}
	c.launcher.close()
	c.http.CloseIdleConnections()
	if c.options.StateFile != "" {
		if err := os.Remove(c.options.StateFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	c.unlock()
	return errors.Join(problems...)
}

// shut ends a child gracefully, or at once when ctx ends.
func (c *Cluster) shut(ctx context.Context, p *child) error {
	c.mu.Lock()
	alive := p.alive()
	c.mu.Unlock()
	if !alive {
		return nil
	}
	if ctx.Err() == nil && c.Stop(ctx, p.name) == nil {
		return nil
	}
	if c.kill(p) != nil {
		return nil // It ended in the meantime.
	}
	return fmt.Errorf("%s was killed, it did not stop in time", p.name)
}

// each runs f for all children at once.
func (c *Cluster) each(children []*child, f func(*child) error) error {
	problems := make([]error, len(children))
	var group sync.WaitGroup
	for i, p := range children {
		group.Go(func() { problems[i] = f(p) })
	}
	group.Wait()
	return errors.Join(problems...)
}

// change sets a child's state, writes the state file and calls Options.Changed. c.mu must be
// held, so that changes are reported in their order.
func (c *Cluster) change(p *child, state string) {
	p.state = state
	if c.options.StateFile != "" {
		s := State{Cluster: c.options.Name, PID: os.Getpid(), Dir: c.options.Dir, Lease: c.options.Lease,
			Journal: c.journal(), Region: c.options.RegionBinary, Token: c.Token(), CA: c.CA(), Control: c.options.Control, Processes: c.processes()}
		// If this fails, readers of the file find an old state; nothing else is harmed.
		_ = s.write(c.options.StateFile)
	}
	if c.options.Changed != nil {
		c.options.Changed(p.info())
	}
}

// journal returns the URL of the journal.
func (c *Cluster) journal() string {
	if c.options.Journal != "" {
		return c.options.Journal
	}
	return (&url.URL{Scheme: "sqlite", Path: filepath.ToSlash(filepath.Join(c.options.Dir, "journal.db"))}).String()
}

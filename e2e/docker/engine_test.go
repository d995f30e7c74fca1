//go:build linux

package docker

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

const (
	// label marks everything that a run makes.
	label = "roost.e2e.docker"
	// prefix begins the names of everything that a run makes.
	prefix = "roost-e2e-"
	// waitLimit bounds waiting for what must happen. It does not judge speed.
	waitLimit = 2 * time.Minute
)

// engine is the Docker engine of this machine.
type engine struct {
	*docker.Client

	mu     sync.Mutex
	images map[string]string // that were built, by name
}

// theEngine is made by the first test that needs it.
var theEngine struct {
	sync.Once
	*engine
	skip string // why there is none
	err  error
}

// needEngine returns the engine. It skips the test if no containers can be run, or unless
// E2E is set, because these tests take minutes.
func needEngine(t *testing.T) *engine {
	t.Helper()
	if os.Getenv("E2E") == "" {
		t.Skip("takes minutes, and runs on request: make e2e-docker")
	}
	e := &theEngine
	e.Do(func() { e.engine, e.skip, e.err = newEngine() })
	if e.err != nil {
		t.Fatal(e.err)
	}
	if e.skip != "" {
		t.Skip(e.skip)
	}
	return e.engine
}

func newEngine() (e *engine, skip string, err error) {
	pool, err := dockertest.NewPool("")
	if err == nil {
		err = pool.Client.Ping()
	}
	if err != nil {
		return nil, fmt.Sprintf("no Docker engine answers: %v", err), nil
	}
	e = &engine{Client: pool.Client, images: map[string]string{}}
	if err := e.sweep(); err != nil {
		return nil, "", fmt.Errorf("what an earlier run has left cannot be removed: %w", err)
	}
	return e, "", nil
}

// ran is set when a scenario runs, or is skipped for what this machine lacks.
var ran atomic.Bool

func TestMain(m *testing.M) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-interrupted
		fmt.Fprintf(os.Stderr, "%v: removing all containers\n", s)
		finish()
		os.Exit(1)
	}()
	code := m.Run()
	if code == 0 && os.Getenv("E2E") != "" && !ran.Load() {
		fmt.Fprintf(os.Stderr, "no scenario matches %s (make e2e-docker RUN=…): nothing was run\n", flag.Lookup("test.run").Value)
		code = 1
	}
	if err := finish(); err != nil {
		fmt.Fprintln(os.Stderr, "removing all containers:", err)
		code = 1
	}
	os.Exit(code)
}

// finish removes everything, if there is anything.
var finish = sync.OnceValue(func() error {
	e := theEngine.engine
	if e == nil {
		return nil
	}
	// After an interrupt, a test may still be about to create something.
	var err error
	for range 3 {
		err = e.sweep()
	}
	return err
})

// sweep removes everything that carries the label.
func (e *engine) sweep() error {
	var errs []error
	try := func(err error) {
		var gone *docker.NoSuchContainer
		if err != nil && !errors.As(err, &gone) && !errors.Is(err, docker.ErrNoSuchImage) {
			errs = append(errs, err)
		}
	}
	ours := map[string][]string{"label": {label}}
	containers, err := e.ListContainers(docker.ListContainersOptions{All: true, Filters: ours})
	try(err)
	var group sync.WaitGroup
	var mu sync.Mutex
	for _, c := range containers {
		group.Go(func() {
			err := e.RemoveContainer(docker.RemoveContainerOptions{ID: c.ID, Force: true, RemoveVolumes: true})
			mu.Lock()
			defer mu.Unlock()
			try(err)
		})
	}
	group.Wait()
	networks, err := e.FilteredListNetworks(docker.NetworkFilterOpts{"label": {label: true}})
	try(err)
	for _, n := range networks {
		try(e.RemoveNetwork(n.ID))
	}
	volumes, err := e.ListVolumes(docker.ListVolumesOptions{Filters: ours})
	try(err)
	for _, v := range volumes {
		try(e.RemoveVolumeWithOptions(docker.RemoveVolumeOptions{Name: v.Name, Force: true}))
	}
	images, err := e.ListImages(docker.ListImagesOptions{All: true, Filters: ours})
	try(err)
	for _, i := range images {
		try(e.RemoveImageExtended(i.ID, docker.RemoveImageOptions{Force: true}))
	}
	return errors.Join(errs...)
}

// root is the path of the repository.
const root = "../.."

// network is an isolated network.
type network struct {
	*engine
	name    string
	id      string
	subnet  netip.Prefix
	gateway netip.Addr // of the bridge: the address of this machine in it
	last    byte       // the last address in use
}

// subnets is the number of networks of 198.19.0.0/16 that are tried. 198.18.0.0/15 is reserved for
// tests of networks (RFC 2544), and package netns has the other half.
const subnets = 256

func (e *engine) network(name string) (*network, error) {
	var err error
	for i := range subnets {
		gateway := netip.AddrFrom4([4]byte{198, 19, byte(i), 1})
		subnet := netip.PrefixFrom(gateway, 24).Masked()
		var made *docker.Network
		made, err = e.CreateNetwork(docker.CreateNetworkOptions{
			Name: prefix + name, Driver: "bridge", Internal: true, CheckDuplicate: true, Labels: map[string]string{label: ""},
			IPAM: &docker.IPAMOptions{Config: []docker.IPAMConfig{{Subnet: subnet.String(), Gateway: gateway.String()}}},
		})
		if err == nil {
			return &network{engine: e, name: prefix + name, id: made.ID, subnet: subnet, gateway: gateway, last: 9}, nil
		}
		if !strings.Contains(err.Error(), "overlaps") {
			break
		}
	}
	return nil, fmt.Errorf("network %s: %w", name, err)
}

// address returns an address that was not used before.
func (n *network) address() string {
	n.last++
	a := n.subnet.Addr().As4()
	a[3] = n.last
	return netip.AddrFrom4(a).String()
}

// container is one container, running or not.
type container struct {
	*network
	name, id, ip string
}

// spec describes a container.
type spec struct {
	name, image, ip string
	env, args       []string
	// volumes are mounted, as name:path.
	volumes []string
}

// create makes a container and does not start it. It has no more rights than the services are
// documented to need. As with the compose files of deploy/, the engine starts it again when
// it ends.
func (n *network) create(s spec) (*container, error) {
	made, err := n.CreateContainer(docker.CreateContainerOptions{
		Name:   prefix + s.name,
		Config: &docker.Config{Image: s.image, Env: s.env, Cmd: s.args, Labels: map[string]string{label: ""}},
		HostConfig: &docker.HostConfig{
			Binds: s.volumes, ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges:true"},
			Tmpfs: map[string]string{"/tmp": "mode=1777"}, NetworkMode: n.name,
			RestartPolicy: docker.RestartOnFailure(0),
		},
		NetworkingConfig: &docker.NetworkingConfig{EndpointsConfig: map[string]*docker.EndpointConfig{
			n.name: {IPAMConfig: &docker.EndpointIPAMConfig{IPv4Address: s.ip}},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", s.name, err)
	}
	return &container{network: n, name: s.name, id: made.ID, ip: s.ip}, nil
}

func (c *container) start() error {
	if err := c.StartContainer(c.id, nil); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	return nil
}

// kill sends SIGKILL and waits for the end.
func (c *container) kill() error {
	err := c.KillContainer(docker.KillContainerOptions{ID: c.id, Signal: docker.SIGKILL})
	var not *docker.ContainerNotRunning
	if err == nil || errors.As(err, &not) {
		_, err = c.WaitContainer(c.id)
	}
	if err != nil {
		return fmt.Errorf("kill %s: %w", c.name, err)
	}
	return nil
}

// stop sends the stop signal. After timeout the container is killed.
func (c *container) stop(timeout time.Duration) error {
	err := c.StopContainer(c.id, uint(timeout.Seconds()))
	var not *docker.ContainerNotRunning
	if err != nil && !errors.As(err, &not) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	return nil
}

// remove removes the container and its volumes.
func (c *container) remove() error {
	return c.RemoveContainer(docker.RemoveContainerOptions{ID: c.id, Force: true, RemoveVolumes: true})
}

func (c *container) state() (docker.State, error) {
	i, err := c.InspectContainer(c.id)
	if err != nil {
		return docker.State{}, err
	}
	return i.State, nil
}

// log returns the last lines of its output.
func (c *container) log(lines string) string {
	var out strings.Builder
	err := c.Logs(docker.LogsOptions{Container: c.id, OutputStream: &out, ErrorStream: &out, Stdout: true, Stderr: true, Tail: lines})
	if err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String()
}

// firewall runs the iptables of this machine in the container's network namespace.
func (c *container) firewall(args ...string) error {
	s, err := c.state()
	if err != nil {
		return err
	}
	out, err := exec.Command("nsenter", append([]string{"-t", fmt.Sprint(s.Pid), "-n", "iptables", "-w"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// cut drops everything between the container and all others. This machine can still reach
// it.
func (c *container) cut() error {
	here := c.gateway.String()
	for _, rule := range [][]string{
		{"-I", "INPUT", "!", "-s", here, "-j", "DROP"},
		{"-I", "OUTPUT", "!", "-d", here, "-j", "DROP"},
	} {
		if err := c.firewall(rule...); err != nil {
			return err
		}
	}
	return nil
}

func (c *container) heal() error {
	return errors.Join(c.firewall("-F", "INPUT"), c.firewall("-F", "OUTPUT"))
}

// canCut returns why firewall rules cannot be set, or "".
func canCut() (why string) {
	if os.Geteuid() != 0 {
		return "only root can set firewall rules"
	}
	for _, program := range []string{"nsenter", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			return "firewall rules are set by the program " + program + ", which is not here; on Debian: apt-get install util-linux iptables"
		}
	}
	return ""
}

// each calls do for all at the same time.
func each[T any](all []T, do func(T) error) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, one := range all {
		group.Go(func() { errs[i] = do(one) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// eventually repeats a check until it passes.
func eventually(t *testing.T, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %v", waitLimit, err)
		}
	}
}

package joiner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/bootstrap"
	"github.com/roost-cluster/roost/libs/discovery"
)

// Joiner brings one process into its cluster. Create it with [New], call Configure for
// the membership, Register for its handlers, and Run next to the membership. Its methods
// are safe for concurrent use.
type Joiner struct {
	cfg     Config
	url     string // without secrets
	backend discovery.Backend
	watch   *discovery.Watch
	inbox   chan bootstrap.Input
	members atomic.Pointer[Membership]
	status  atomic.Pointer[bootstrap.Status]

	// Used by the loop only.
	core         *bootstrap.Machine
	outs         []bootstrap.Output
	queries      sync.WaitGroup
	lastNotified []discovery.Peer // as Changed and the membership were last told
	err          error
	done         bool
}

// New returns a Joiner. It sends no request yet, so that a process can start while
// discovery is down.
func New(cfg Config) (*Joiner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Bootstrap.Self, cfg.Bootstrap.Roles, cfg.Bootstrap.Cluster = cfg.Self, cfg.Roles, cfg.Cluster
	cfg.Bootstrap.Seed = uint64(cfg.Self.UID)
	core, err := bootstrap.New(cfg.Bootstrap)
	if err != nil {
		return nil, err
	}
	j := &Joiner{
		cfg: cfg, url: backendurl.Redact(bootstrap.Expand(cfg.URL, cfg.Cluster)), core: core,
		// Each contact point has at most one request in flight.
		inbox: make(chan bootstrap.Input, 2*cfg.Bootstrap.MaxContacts),
	}
	j.keepStatus()
	if len(cfg.Seeds) > 0 {
		return j, nil
	}
	if j.backend, err = discovery.Open(bootstrap.Expand(cfg.URL, cfg.Cluster), cfg.Cluster); err != nil {
		return nil, fmt.Errorf("discovery.url: %w", err)
	}
	c := discovery.DefaultConfig()
	c.Interval, c.Timeout, c.Enough = cfg.Bootstrap.QueryInterval, cfg.Bootstrap.QueryTimeout, cfg.Bootstrap.Required
	c.MaxBackoff = max(c.MaxBackoff, c.Interval)
	if j.watch, err = discovery.NewWatch(j.backend, c, cfg.Log.With("discovery.url", j.url)); err != nil {
		return nil, errors.Join(err, j.backend.Close())
	}
	return j, nil
}

// Watch returns the discovery watch, for metrics; nil with configured seeds.
func (j *Joiner) Watch() *discovery.Watch { return j.watch }

// Coordinators returns the addresses that discovery lists now, or the configured seeds.
func (j *Joiner) Coordinators() []string {
	if j.watch == nil {
		return slices.Clone(j.cfg.Seeds)
	}
	return coordinators(j.watch.Peers().Peers)
}

// coordinators returns the addresses of peers without another role.
func coordinators(peers []discovery.Peer) []string {
	var addrs []string
	for _, p := range peers {
		if p.Role == "" || p.Role == "coordinator" {
			addrs = append(addrs, p.Addr)
		}
	}
	return addrs
}

// Run looks for the cluster until this node is a member, and then passes changes of
// discovery on to the membership until ctx is done; then it closes the backend. It returns
// an error only when it gives up.
func (j *Joiner) Run(ctx context.Context) (err error) {
	m := *j.members.Load()
	if j.watch == nil {
		j.cfg.Log.Warn("bootstrap is off because cluster.seeds is set", "hint", "discovery.url is not used; remove cluster.seeds to use it", "cluster.seeds", j.cfg.Seeds)
		<-ctx.Done()
		return nil
	}
	defer func() { err = errors.Join(err, j.backend.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer j.queries.Wait()
	defer cancel()
	news := make(chan struct{}, 1) // holds a token if discovery has changed
	j.queries.Go(func() {
		j.watch.Run(ctx, func(discovery.Answer) {
			select {
			case news <- struct{}{}:
			default:
			}
		})
	})
	ticker := time.NewTicker(min(max(j.cfg.Bootstrap.QueryInterval/4, 5*time.Millisecond), 100*time.Millisecond))
	defer ticker.Stop()
	j.step(ctx, m, bootstrap.Start{})
	for j.err == nil && !j.done {
		select {
		case <-ctx.Done():
			return nil
		case in := <-j.inbox:
			j.step(ctx, m, in)
		case <-ticker.C:
			for more := true; more; { // inputs that arrived before the tick
				select {
				case in := <-j.inbox:
					j.step(ctx, m, in)
				default:
					more = false
				}
			}
			j.tick(ctx, m)
		}
	}
	ticker.Stop()
	for j.err == nil {
		j.announce(m)
		select {
		case <-ctx.Done():
			return nil
		case <-news:
		}
	}
	return j.err
}

// tick gives the core everything that can be observed without waiting.
func (j *Joiner) tick(ctx context.Context, m Membership) {
	switch a := j.watch.Peers(); {
	case a.Err != nil:
		j.step(ctx, m, bootstrap.LookupFailed{Reason: fmt.Sprintf("discovery.url %s: %v", j.url, a.Err)})
	case a.Known:
		var d bootstrap.Discovered
		for _, p := range a.Peers {
			d.Peers = append(d.Peers, bootstrap.Peer{Addr: p.Addr, Role: p.Role})
		}
		j.step(ctx, m, d)
		if j.cfg.Changed != nil && !slices.Equal(a.Peers, j.lastNotified) {
			j.lastNotified = a.Peers
			j.cfg.Changed()
		}
	}
	if m.Members().InCluster {
		j.step(ctx, m, bootstrap.Joined{})
		return
	}
	j.step(ctx, m, bootstrap.Tick{})
}

// announce gives the membership the addresses of nodes that perhaps do not know of it.
func (j *Joiner) announce(m Membership) {
	a := j.watch.Peers()
	m.SetSeeds(coordinators(a.Peers)) // repeating the same list has no effect
	if j.cfg.Changed != nil && !slices.Equal(a.Peers, j.lastNotified) {
		j.lastNotified = a.Peers
		j.cfg.Changed()
	}
}

// step gives the core one input and performs its outputs.
func (j *Joiner) step(ctx context.Context, m Membership, in bootstrap.Input) {
	j.outs = j.core.Step(time.Now(), in, j.outs[:0])
	log := j.cfg.Log
	for _, o := range j.outs {
		switch o := o.(type) {
		case bootstrap.Query:
			j.queries.Go(func() { j.query(ctx, o.Addr) })
		case bootstrap.JoinSeeds:
			m.SetSeeds(o.Seeds)
		case bootstrap.FormCluster:
			m.Form()
		case bootstrap.Waiting:
			log.Info("bootstrap decision", "decision", o.Why, "discovery.url", j.url)
		case bootstrap.Warning:
			log.Warn("bootstrap contact point answers wrongly", "problem", o.Problem, "discovery.url", j.url)
		case bootstrap.GaveUp:
			j.err = fmt.Errorf("not in a cluster after %v (discovery.give_up), with discovery.url %s: %s", j.cfg.Bootstrap.GiveUp, j.url, o.Why)
		case bootstrap.Finished:
			log.Info("joined the cluster")
			j.done = true
		}
	}
	j.keepStatus()
}

func (j *Joiner) keepStatus() {
	s := j.core.Status()
	j.status.Store(&s)
}

// ready is the readiness check: its error describes what the node waits for.
func (j *Joiner) ready(context.Context) error {
	s := j.status.Load()
	if j.watch == nil || s.Phase == "finished" {
		return nil
	}
	return errors.New(s.Waiting)
}

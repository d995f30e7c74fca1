package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/discovery"
)

const (
	// dialsAtOnce and dialTimeout bound the connections to the listed peers.
	dialsAtOnce = 32
	dialTimeout = 2 * time.Second
	// waitForChange bounds a test's wait for a change: if waiting is refused, that happens
	// at once.
	waitForChange = time.Second
)

// check is one step of a test. Result is ok, warn or fail.
type check struct {
	Name   string `json:"check"`
	Result string `json:"result"`
	Detail string `json:"detail"`
	Next   string `json:"next,omitempty"`
}

func passed(name, format string, args ...any) check {
	return check{Name: name, Result: "ok", Detail: fmt.Sprintf(format, args...)}
}

// testDiscovery prints the checks as they are done, and at the end what to do.
func (a *group) testDiscovery(ctx context.Context, u discoveryURL, args []string, write bool) error {
	d, url, err := u.open(ctx, args)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	scheme, _, _ := strings.Cut(url, ":")
	t := discoveryTest{backend: d, scheme: scheme, timeout: u.timeout}
	checks := t.run(ctx, write)
	if err := ctx.Err(); err != nil {
		return app.ErrInterrupted
	}
	failed := slices.ContainsFunc(checks, func(c check) bool { return c.Result == "fail" })
	if a.JSON() {
		err = a.PrintJSON(struct {
			URL    string  `json:"url"`
			OK     bool    `json:"ok"`
			Checks []check `json:"checks"`
		}{url, !failed, checks})
	} else {
		err = a.printChecks(checks)
	}
	if err == nil && failed {
		err = errors.New("discovery does not work as it is")
	}
	return err
}

func (a *group) printChecks(checks []check) error {
	for _, c := range checks {
		if _, err := fmt.Fprintf(a.Out, "%-4s  %-9s %s\n", c.Result, c.Name, c.Detail); err != nil {
			return err
		}
		if c.Next == "" {
			continue
		}
		if _, err := fmt.Fprintf(a.Out, "      %-9s %s\n", "next:", c.Next); err != nil {
			return err
		}
	}
	return nil
}

type discoveryTest struct {
	backend discovery.Backend
	scheme  string
	timeout time.Duration
}

func (t discoveryTest) run(ctx context.Context, write bool) []check {
	answers, peers := t.answers(ctx)
	checks := []check{answers}
	if answers.Result == "ok" {
		checks = append(checks, t.roles(peers), t.changes(ctx))
	}
	if write {
		checks = append(checks, t.write(ctx))
	}
	if len(peers) > 0 {
		checks = append(checks, t.reach(ctx, peers))
	}
	return checks
}

func (t discoveryTest) answers(ctx context.Context) (check, []discovery.Peer) {
	const name = "answer"
	c := discovery.DefaultConfig()
	c.Timeout = t.timeout
	w, err := discovery.NewWatch(t.backend, c, nil)
	if err != nil {
		return check{name, "fail", err.Error(), "choose another --timeout"}, nil
	}
	a := w.Lookup(ctx)
	if a.Err != nil {
		return check{name, "fail", a.Err.Error(), t.advise(a.Err)}, nil
	}
	return passed(name, "%s in %s", phrase.Plural(len(a.Peers), "peer"), w.Stats().Took.Round(100*time.Microsecond)), a.Peers
}

// advise returns what to do about a failed lookup or registration.
func (t discoveryTest) advise(err error) string {
	var refused *net.OpError
	switch {
	case errors.Is(err, discovery.ErrDenied):
		switch t.scheme {
		case "etcd":
			return "check user and password_file, and that a role of the user may read and write below the path: etcdctl role grant-permission ROLE readwrite PATH/ --prefix"
		case "consul":
			return `check token_file; its policy needs: service "NAME" { policy = "write" } node_prefix "" { policy = "read" }`
		case "kubernetes":
			return "bind a Role to the service account: apiGroups [discovery.k8s.io], resources [endpointslices], verbs [list, watch]"
		}
		return "ask another resolver, or allow this host to ask this one"
	case errors.Is(err, context.DeadlineExceeded):
		return "is the server there, and does a firewall drop the packets? try a longer --timeout from another place"
	case errors.As(err, &refused):
		return "nothing listens there, or the name does not resolve: check host and port of the URL"
	}
	return "the message names the place; put right what stands there, or give the cluster a place of its own"
}

// nobodyThere maps each kind of discovery to possible reasons for an empty answer.
var nobodyThere = map[string]string{
	"static":     "the URL lists no peers",
	"file":       "write one host:port per line into the file",
	"dns":        "is the name right? one that does not exist is answered like this too; names are complete, nothing is searched",
	"etcd":       "has a coordinator been started with this very URL? the path must be the same",
	"consul":     "has a coordinator been started with this very URL? with access control, a missing token_file hides everybody; and checks must pass",
	"kubernetes": "does the Service exist in that namespace and select pods? before they are ready they are listed only with publishNotReadyAddresses: true, or ready=any",
}

func (t discoveryTest) roles(peers []discovery.Peer) check {
	const name = "peers"
	count := map[string]int{}
	for _, p := range peers {
		count[p.Role]++
	}
	var said []string
	for _, role := range slices.Sorted(maps.Keys(count)) {
		noun := role
		if role == "" {
			noun = "peer without a role"
		}
		said = append(said, phrase.Plural(count[role], noun))
	}
	switch {
	case len(peers) == 0:
		return check{name, "warn", "no peer is listed", nobodyThere[t.scheme]}
	case count["coordinator"] == 0 && count[""] == 0:
		return check{name, "warn", strings.Join(said, ", "), "there is no coordinator: no process can join, and gateways learn the table from regions only"}
	}
	return passed(name, "%s", strings.Join(said, ", "))
}

// changes checks whether waiting for changes is refused.
func (t discoveryTest) changes(ctx context.Context) check {
	const name = "changes"
	f, ok := t.backend.(discovery.Follower)
	if !ok {
		return passed(name, "looked for every %s", discovery.DefaultConfig().Interval)
	}
	bounded, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	_, changed, err := f.Follow(bounded)
	if err != nil {
		return check{name, "fail", err.Error(), t.advise(err)}
	}
	waiting, cancelWait := context.WithTimeout(ctx, waitForChange)
	defer cancelWait()
	if err := changed(waiting); err != nil && waiting.Err() == nil {
		return check{name, "warn", err.Error(), "it is polled at intervals instead; to receive changes: " + t.advise(err)}
	}
	return passed(name, "noticed when they happen")
}

// write registers a peer and removes it again.
func (t discoveryTest) write(ctx context.Context) check {
	const name = "write"
	r, ok := t.backend.(discovery.Registrar)
	if !ok {
		return passed(name, "no process enters itself there")
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	self := discovery.Peer{Addr: "127.0.0.1:1", Role: "region"}
	if err := r.Enter(ctx, self); err != nil {
		return check{name, "fail", err.Error(), t.advise(err)}
	}
	if err := r.Remove(ctx, self); err != nil {
		return check{name, "fail", err.Error(), fmt.Sprintf("the entry of %s expires after %s", self, r.TTL())}
	}
	return passed(name, "entered %s and took it out; entries last %s", self, r.TTL())
}

// reach connects to every peer.
func (t discoveryTest) reach(ctx context.Context, peers []discovery.Peer) check {
	const name = "reach"
	var mu sync.Mutex
	var dead []string
	var all sync.WaitGroup
	slots := make(chan struct{}, dialsAtOnce)
	for _, p := range peers {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			dialer := net.Dialer{Timeout: dialTimeout}
			conn, err := dialer.DialContext(ctx, "tcp", p.Addr)
			if err == nil {
				_ = conn.Close()
				return
			}
			mu.Lock()
			defer mu.Unlock()
			dead = append(dead, fmt.Sprintf("%s (%v)", p, err))
		})
	}
	all.Wait()
	if len(dead) == 0 {
		return passed(name, "all accept connections from here")
	}
	slices.Sort(dead)
	return check{name, "warn", fmt.Sprintf("%d of %d accept no connection from here: %s", len(dead), len(peers), strings.Join(dead, "; ")),
		"a process may have died a moment ago; else check node.advertise, the port, and firewalls"}
}

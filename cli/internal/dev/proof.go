package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/adminclient"
	controlplane "github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/errornumber"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	provePause   = 20 * time.Millisecond
	proveTimeout = 5 * time.Second // for one command
	// probeID is the entity that receives the command. Nothing is ever stored for it.
	probeID = "roost-dev-probe"
)

// proof is the command that shows that a cluster works, and its result.
type proof struct {
	types    []string
	typ      string
	command  string
	readOnly bool
	answers  bool // the read-only command has answered without an input
	counts   bool // the default region's Counter/Add is among the types
	asks     bool // gateways ask who calls, and have refused the command because nothing says so
	http     *http.Client
	ca       string // file with the authority of the gateways; empty: plain TCP
}

// prove sends a command through every gateway until an entity has answered.
func prove(ctx context.Context, c *cluster.Cluster) (proof, error) {
	var table []sharding.TypeDesc
	err := repeat(ctx, func() (err error) {
		table, err = hosted(ctx, c)
		return err
	})
	if err != nil {
		return proof{}, err
	}
	p := newProof(table)
	p.ca = c.CA()
	p.http = adminclient.NewHTTP(adminclient.Options{TLS: c.Clients()}, proveTimeout)
	for _, gateway := range c.Gateways() {
		if err := repeat(ctx, func() error { return p.send(ctx, gateway) }); err != nil {
			return proof{}, fmt.Errorf("no command came through %s: %w", gateway, err)
		}
	}
	return p, nil
}

// repeat calls try until it succeeds or ctx is done; then it returns the last error that
// is not due to ctx.
func repeat(ctx context.Context, try func() error) error {
	pause := time.NewTicker(provePause)
	defer pause.Stop()
	var last error
	for {
		err := try()
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		}
	}
}

// hosted returns the types of the cluster and their commands, from a region.
func hosted(ctx context.Context, c *cluster.Cluster) ([]sharding.TypeDesc, error) {
	last := errors.New("no region is running")
	asker, url := c.Peer(proveTimeout)
	defer asker.CloseIdleConnections()
	for _, process := range c.Processes() {
		if process.Role != cluster.Region || process.PID == 0 {
			continue
		}
		client := rpc.Client{Cluster: "dev", Reach: rpc.Via(asker, url), Timeout: proveTimeout}
		answer, err := client.Call(ctx, process.Service, controlplane.WatchTable{Copy: true})
		table, _ := answer.(controlplane.TableChanged)
		switch {
		case err != nil:
			last = err
		case len(table.Delta.Types) == 0:
			last = errors.New("no region has declared an entity type yet")
		default:
			return table.Delta.Types, nil
		}
	}
	return nil, last
}

// newProof chooses a command: a read-only one if there is one.
func newProof(types []sharding.TypeDesc) proof {
	p := proof{http: http.DefaultClient}
	readOnly := false
	for _, t := range types {
		p.types = append(p.types, string(t.Type))
		for _, c := range t.Commands {
			if p.command == "" || c.ReadOnly && !readOnly {
				p.typ, p.command, readOnly = string(t.Type), c.Name, c.ReadOnly
			}
			p.counts = p.counts || t.Type == "Counter" && c.Name == "Add"
		}
	}
	slices.Sort(p.types)
	p.readOnly = readOnly
	return p
}

// send sends the command. A refusal by the entity shows that the cluster works as well as
// a reply does, and so does a handler that fails: its error is in its region's log, for
// its author. A gateway that asks who calls refuses the command before it is routed: it does what its
// settings say, and is ready, so that a region can be reached.
func (p *proof) send(ctx context.Context, gateway string) error {
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	// A command that could change something gets an input that cannot be decoded, so
	// that it changes nothing.
	body := "]"
	if p.readOnly {
		body = ""
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway+"/v1/"+p.typ+"/"+probeID+"/"+p.command, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	var failed struct {
		Code string            `json:"code"`
		Msg  string            `json:"msg"`
		Meta map[string]string `json:"meta"`
	}
	switch {
	case res.StatusCode == http.StatusOK:
		p.answers = p.readOnly
		return nil
	case json.Unmarshal(answer, &failed) != nil || failed.Code == "":
		return fmt.Errorf("%s: %s", res.Status, bytes.TrimSpace(answer))
	case failed.Meta["outcome"] == sharding.Executed.String(), failed.Code == "invalid_argument", failed.Meta["error"] == string(errornumber.Failed):
		return nil
	case failed.Meta["error"] == string(errornumber.Unauthenticated), failed.Meta["error"] == string(errornumber.PermissionDenied):
		p.asks = true
		return nil
	}
	return fmt.Errorf("%s: %s", failed.Code, failed.Msg)
}

// curl returns a command line that works when pasted, or a text that names what is missing: only the
// inputs of the default region's commands are known.
func (p *proof) curl(api string) string {
	api, curl := strings.TrimPrefix(api, "http://"), "curl"
	if p.ca != "" {
		curl = "curl --cacert " + p.ca
	}
	if p.asks {
		curl += ` -H "Authorization: Bearer $ROOST_TOKEN"`
	}
	switch {
	case p.counts:
		return fmt.Sprintf(`%s --json '{"delta":5}' %s/v1/Counter/c1/Add`, curl, api)
	case p.answers:
		return fmt.Sprintf(`%s %s/v1/%s/example/%s`, curl, api, p.typ, p.command)
	}
	return fmt.Sprintf(`%s --json 'INPUT' %s/v1/%s/example/%s   INPUT: what %s takes, as JSON`, curl, api, p.typ, p.command, p.command)
}

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// keptPath is the path on which a region gives its kept states to the owner of the shard. These requests have
// connections of their own: commands must not wait for them.
const keptPath = "/kept"

// keptRequest asks for the states of a shard's entities.
type keptRequest struct {
	Cluster string              `json:"cluster"`
	To      sharding.NodeUID    `json:"to"` // the incarnation that is meant
	Type    sharding.EntityType `json:"type"`
	Shard   uint32              `json:"shard"`
	Epoch   sharding.Epoch      `json:"epoch"`   // at which the asking region owns the shard
	Stopped sharding.Epoch      `json:"stopped"` // at which this region stopped it
}

// maxKeptRequest is more than any request is long.
const maxKeptRequest = 4 << 10

// maxFetches is the maximum number of concurrent fetches, each on a connection: enough to keep a network busy,
// and few for the region that gives, because other regions ask it too.
const maxFetches = 16

// keptClient fetches states from other regions.
type keptClient struct {
	cluster  string
	url      func(addr string) string
	http     *http.Client
	slots    chan struct{}
	entities int
	bytes    int
}

func newKeptClient(cluster string, peers *rpc.Peers, limits *turn.Config) *keptClient {
	regions := peers.Of(control.Region)
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return regions.Dial(ctx, addr) }
	return &keptClient{
		cluster: cluster, url: regions.URL, slots: make(chan struct{}, maxFetches),
		entities: limits.KeptEntities, bytes: limits.KeptBytes,
		// The client of the peers is not used, because it allows only short answers.
		http: &http.Client{Transport: &http.Transport{
			DialContext: dial, DialTLSContext: dial,
			MaxIdleConnsPerHost: maxFetches, IdleConnTimeout: 10 * time.Second, DisableCompression: true,
		}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// fetch asks the previous owner for the states that it has kept. If there is an error, it also
// returns the states that have arrived whole.
func (c *keptClient) fetch(ctx context.Context, o region.FetchKept) ([]turn.Kept, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Within)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	body, err := json.Marshal(keptRequest{
		Cluster: c.cluster, To: o.Previous.Owner.UID, Type: o.Shard.Type, Shard: o.Shard.Index, Epoch: o.Epoch, Stopped: o.Previous.Epoch,
	})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url(o.Previous.Owner.Addr)+keptPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // a request that may have arrived is not made again: the states are given once
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(res.Body, 200))
		return nil, fmt.Errorf("%s: %s", res.Status, bytes.TrimSpace(why))
	}
	return readKept(res.Body, c.entities, c.bytes)
}

// fetchKept fetches states in the background.
func (s *shardLoop) fetchKept(o region.FetchKept) {
	go func() {
		var states []turn.Kept
		err := errors.New("this region cannot ask others")
		if s.fetch != nil {
			states, err = s.fetch(s.ctx, o)
		}
		if err != nil && s.ctx.Err() == nil {
			s.log.Warn("could not fetch all states of a shard", "hint", "the other entities start empty",
				"shard", o.Shard, "epoch", o.Epoch, "from", o.Previous.Owner, "fetched", len(states), "error", err)
		}
		s.put(item{in: region.KeptFetched{Shard: o.Shard, Epoch: o.Epoch, Kept: states}})
	}()
}

// give asks the core for the states of a shard that are kept. sent must be called when they
// are sent, or cannot be.
func (s *shardLoop) give(in region.GiveKept) (o region.Kept, sent func(), err error) {
	got := make(chan region.Kept, 1)
	s.put(item{do: func() {
		s.lastGive++
		in.Call = s.lastGive
		s.gives[in.Call] = got
		s.input(in)
	}})
	// The core answers at once. What it gives is gone there, so the answer is awaited.
	select {
	case o = <-got:
	case <-s.ctx.Done():
		return o, nil, errStopping
	}
	return o, func() {
		if len(o.States) > 0 {
			s.put(item{in: region.KeptSent{Bytes: o.Bytes}})
		}
	}, nil
}

// gave answers a give.
func (s *shardLoop) gave(o region.Kept) {
	s.gives[o.Call] <- o
	delete(s.gives, o.Call)
}

// giver gives what is kept to the next owners.
type giver struct{ s *Server }

// ServeHTTP answers a [keptRequest] with the states, which may be none.
func (g giver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "use POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxKeptRequest))
	var req keptRequest
	if err == nil {
		err = json.Unmarshal(body, &req)
	}
	s := g.s
	switch {
	case err != nil:
		http.Error(w, "malformed: "+err.Error(), http.StatusBadRequest)
		return
	case req.Cluster != s.cfg.ClusterName:
		http.Error(w, fmt.Sprintf("this is cluster %q, not %q; see cluster.name", s.cfg.ClusterName, req.Cluster), http.StatusPreconditionFailed)
		return
	case req.To != s.self.UID:
		http.Error(w, "the request is for another incarnation of this process: its states are gone", http.StatusPreconditionFailed)
		return
	}
	id := sharding.ShardID{Type: req.Type, Index: req.Shard}
	l := s.runner.shards[s.runner.cfg.CoreOf(id)]
	o, sent, err := l.give(region.GiveKept{Shard: id, Epoch: req.Epoch, Stopped: req.Stopped})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer sent()
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := writeKept(w, o.States); err != nil {
		s.log.Warn("could not send all states of a shard", "hint", "those that have not arrived are lost", "shard", id, "entities", len(o.States), "error", err)
	} else if len(o.States) > 0 {
		s.log.Debug("handed over the states of a shard's entities", "shard", id, "epoch", req.Epoch, "entities", len(o.States))
	}
}

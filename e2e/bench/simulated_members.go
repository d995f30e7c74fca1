package bench

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/splitbrain"
	clusterv1 "github.com/roost-cluster/roost/proto/roost/cluster/v1"
)

// joinAgain is the time between two attempts of a simulated region to join.
const joinAgain = 500 * time.Millisecond

// simulatedMembers are the membership of simulated regions. Only the first of them is a real member,
// with an agent. The others answer heartbeats, and let the first one gossip for them: they report the
// same state as seen.
type simulatedMembers struct {
	of     *simulatedRegions
	agent  *agent.Agent
	direct http.RoundTripper // to the coordinator

	mu   sync.Mutex
	join *clusterv1.Join // of the first, which the others repeat with their names
}

// join prepares the membership.
func (s *simulatedRegions) join() (*simulatedMembers, error) {
	m := &simulatedMembers{of: s, direct: s.http.Transport}
	first := s.all[0]
	core := gossip.DefaultConfig()
	var err error
	if core.Downing, err = splitbrain.LeaseConfig("coordinator").Open(); err != nil {
		return nil, err
	}
	core.Self, core.Name, core.Roles, core.Seeds, core.Watch = first.node, first.name(), []string{"region"}, []string{s.coordinator}, gossip.NormalProfile()
	m.agent, err = agent.New(agent.Config{Core: core, Cluster: clusterName, Client: &http.Client{Transport: m}})
	return m, err
}

// run makes all regions members, and keeps them members until ctx ends.
func (m *simulatedMembers) run(ctx context.Context) {
	m.of.jobs.Go(func() { _ = m.agent.Run(ctx) }) // await notices
	pause := time.NewTicker(joinAgain)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		m.mu.Lock()
		first := m.join
		m.mu.Unlock()
		if first == nil {
			continue
		}
		v := m.agent.Members()
		known := map[string]bool{}
		for i := range v.Members {
			known[v.Members[i].Node.Addr] = true
		}
		for _, r := range m.of.all[1:] {
			if v.InCluster && !known[r.node.Addr] {
				join := proto.CloneOf(first)
				join.Name = r.name()
				m.post(r.node, &clusterv1.Message{Kind: &clusterv1.Message_Join{Join: join}})
			}
		}
	}
}

// await waits until all regions are up.
func (m *simulatedMembers) await(ctx context.Context) error {
	for {
		up := 0
		v := m.agent.Members()
		for i := range v.Members {
			if v.Members[i].Status == gossip.Up {
				up++
			}
		}
		if up > len(m.of.all) { // the coordinator as well
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d members are up: %w", up, len(m.of.all)+1, ctx.Err())
		}
	}
}

// post sends the coordinator a message of a region.
func (m *simulatedMembers) post(from sharding.NodeID, msgs ...*clusterv1.Message) {
	client := clusterv1.NewClusterProtobufClient("http://"+m.of.coordinator, &http.Client{Transport: m.direct})
	ctx, cancel := context.WithTimeout(m.of.ctx, time.Second)
	defer cancel()
	_, _ = client.Post(ctx, &clusterv1.PostRequest{ // whatever is lost is repeated
		Cluster: clusterName, From: &clusterv1.Node{Addr: from.Addr, Uid: uint64(from.UID)}, Messages: msgs,
	})
}

// Post takes what the coordinator sends to any region.
func (m *simulatedMembers) Post(_ context.Context, req *clusterv1.PostRequest) (*clusterv1.PostResponse, error) {
	first := m.of.all[0]
	forFirst := &clusterv1.PostRequest{Cluster: req.Cluster, From: req.From}
	for _, msg := range req.Messages {
		beat, is := msg.Kind.(*clusterv1.Message_Heartbeat)
		if to := m.of.byUID(msg.ToUid); is && to != nil && to != first {
			go m.post(to.node, replyTo(beat, req.From))
			continue
		}
		if _, welcome := msg.Kind.(*clusterv1.Message_Welcome); welcome && msg.ToUid != uint64(first.node.UID) {
			continue // the first one learns its content anyway
		}
		msg.ToUid = uint64(first.node.UID)
		forFirst.Messages = append(forFirst.Messages, msg)
	}
	if len(forFirst.Messages) > 0 {
		m.deliver(forFirst)
	}
	return &clusterv1.PostResponse{}, nil
}

// expanded expands the bodies of requests; members compress the longer ones.
func expanded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, err := gzip.NewReader(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.Body = body
		}
		h.ServeHTTP(w, r)
	})
}

// byUID finds a region.
func (s *simulatedRegions) byUID(uid uint64) *simulatedRegion {
	return s.byIncarnation[sharding.NodeUID(uid)]
}

func replyTo(beat *clusterv1.Message_Heartbeat, to *clusterv1.Node) *clusterv1.Message {
	return &clusterv1.Message{ToUid: to.GetUid(), Kind: &clusterv1.Message_HeartbeatReply{HeartbeatReply: &clusterv1.HeartbeatReply{Seq: beat.Heartbeat.GetSeq()}}}
}

// deliver hands messages to the agent.
func (m *simulatedMembers) deliver(req *clusterv1.PostRequest) {
	body, err := proto.Marshal(req)
	if err != nil {
		panic(err) // it was decoded
	}
	r, err := http.NewRequest(http.MethodPost, m.agent.PathPrefix()+"Post", bytes.NewReader(body))
	if err != nil {
		panic(err) // the path is a constant
	}
	r.Header.Set("Content-Type", "application/protobuf")
	m.agent.Handler().ServeHTTP(discard{}, r)
}

// discard is the answer to a post, which is not read.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// RoundTrip carries what the agent of the first region sends. Other regions answer its heartbeats.
// Posts to the coordinator report that all regions have seen the state.
func (m *simulatedMembers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Content-Encoding") != "" {
		return m.direct.RoundTrip(r) // parts of the state
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_ = r.Body.Close() // it was in memory
	req := &clusterv1.PostRequest{}
	if err := proto.Unmarshal(body, req); err != nil {
		return nil, err
	}
	if to := m.of.byAddr[r.URL.Host]; to != nil {
		back := &clusterv1.PostRequest{Cluster: req.Cluster, From: &clusterv1.Node{Addr: to.node.Addr, Uid: uint64(to.node.UID)}}
		for _, msg := range req.Messages {
			if beat, is := msg.Kind.(*clusterv1.Message_Heartbeat); is {
				back.Messages = append(back.Messages, replyTo(beat, req.From))
			}
		}
		if len(back.Messages) > 0 {
			go m.deliver(back)
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/protobuf"}}, Body: http.NoBody, Request: r}, nil
	}
	members := len(m.agent.Members().Members)
	for _, msg := range req.Messages {
		switch kind := msg.Kind.(type) {
		case *clusterv1.Message_Join:
			m.mu.Lock()
			m.join = proto.CloneOf(kind.Join)
			m.mu.Unlock()
		case *clusterv1.Message_GossipStatus:
			if len(kind.GossipStatus.Parts) == 0 && len(kind.GossipStatus.Seen) == (members+7)/8 {
				kind.GossipStatus.Seen = allSeen(members)
			}
		}
	}
	if body, err = proto.Marshal(req); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return m.direct.RoundTrip(r)
}

// allSeen returns the set of all members.
func allSeen(members int) []byte {
	seen := []byte(strings.Repeat("\xff", members/8))
	if rest := members % 8; rest > 0 {
		seen = append(seen, 1<<rest-1)
	}
	return seen
}

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/routetable"
	"github.com/roost-cluster/roost/libs/sharding"
	clusterv1 "github.com/roost-cluster/roost/proto/roost/cluster/v1"
	controlv1 "github.com/roost-cluster/roost/proto/roost/control/v1"
)

// Of the simulated regions.
const (
	// loadEvery is the default of region.load_interval.
	loadEvery = 5 * time.Second
	// registerAgain is the time after which a region registers again that was not acknowledged.
	registerAgain = 250 * time.Millisecond
	// simulatedZones are the zones of the regions.
	simulatedZones = 3
)

// simulatedRegions are many regions in this process, as one coordinator sees them: members that
// answer heartbeats, register, watch the table, start and stop shards at once, and report loads.
// Each has an address of its own. They host no entities, claim no shards in the journal and keep no
// table, because many real regions would leave the coordinator no processor.
type simulatedRegions struct {
	coordinator string // its service address
	types       []sharding.TypeDesc
	all         []*simulatedRegion
	byAddr      map[string]*simulatedRegion
	// byIncarnation has the same by their incarnations.
	byIncarnation map[sharding.NodeUID]*simulatedRegion
	http          *http.Client
	server        *http.Server
	members       *simulatedMembers

	ctx  context.Context
	end  context.CancelFunc
	jobs sync.WaitGroup
	// polls and tables count the answers to watches, and the bytes of these answers.
	polls, tables atomic.Int64
}

// simulatedRegion is one of them.
type simulatedRegion struct {
	of      *simulatedRegions
	number  int
	node    sharding.NodeID
	api     *rpc.Client
	control http.Handler

	mu     sync.Mutex
	shards map[sharding.ShardID]bool // that it serves
}

// simulateRegions starts regions, which join the cluster of a coordinator. They do not register.
func simulateRegions(ctx context.Context, count int, coordinator string, types []sharding.TypeDesc) (*simulatedRegions, error) {
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	s := &simulatedRegions{
		coordinator: coordinator, types: types, byAddr: map[string]*simulatedRegion{}, byIncarnation: map[sharding.NodeUID]*simulatedRegion{},
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4 * count, DisableCompression: true}},
	}
	s.ctx, s.end = context.WithCancel(ctx)
	for i := range count {
		// All of 127.0.0.0/8 is this machine. These addresses are above the coordinator's, 127.0.0.1:
		// so it leads the membership, as the member with the lowest address.
		r := &simulatedRegion{of: s, number: i, shards: map[sharding.ShardID]bool{},
			node: sharding.NodeID{Addr: fmt.Sprintf("127.1.%d.%d:%s", i/250, i%250+1, port), UID: sharding.NodeUID(sharding.Draw(1, 0, uint64(i)))}}
		r.api = &rpc.Client{Cluster: clusterName, Self: r.node, Reach: rpc.Via(s.http, nil), Timeout: 5 * time.Second}
		r.control = rpc.Handler(clusterName, r.node, control.Region, nil, r, slog.New(slog.DiscardHandler))
		s.all = append(s.all, r)
		s.byAddr[r.node.Addr], s.byIncarnation[r.node.UID] = r, r
	}
	if s.members, err = s.join(); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.Handle(clusterv1.ClusterPathPrefix, expanded(clusterv1.NewClusterServer(s.members)))
	mux.HandleFunc(rpc.PathPrefix, func(w http.ResponseWriter, req *http.Request) {
		if r := s.byAddr[req.Host]; r != nil {
			r.control.ServeHTTP(w, req)
		}
	})
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	s.jobs.Go(func() { _ = s.server.Serve(listener) }) // ends with close
	s.jobs.Go(func() { s.members.run(s.ctx) })
	return s, nil
}

// close ends the regions without a word, as if their machines were switched off.
func (s *simulatedRegions) close() {
	s.end()
	_ = s.server.Close() // nothing is lost
	s.jobs.Wait()
	s.http.CloseIdleConnections()
}

// name returns what people call a region.
func (r *simulatedRegion) name() string { return "region-" + strconv.Itoa(r.number+1) }

// register registers regions, which then watch the table and report loads.
func (s *simulatedRegions) register(ctx context.Context, regions []*simulatedRegion) error {
	errs := make([]error, len(regions))
	var group sync.WaitGroup
	for i, r := range regions {
		group.Go(func() { errs[i] = r.register(ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (r *simulatedRegion) register(ctx context.Context) error {
	ack, err := r.registered(ctx)
	if err == nil {
		r.of.jobs.Go(func() { r.watch(ack.Term) })
		r.of.jobs.Go(r.reportLoads)
	}
	return err
}

// registered registers until the coordinator acknowledges it.
func (r *simulatedRegion) registered(ctx context.Context) (control.RegisterAck, error) {
	m := control.Register{Name: r.name(), Types: r.of.types, Zone: "zone-" + strconv.Itoa(r.number%simulatedZones)}
	for {
		answer, err := r.api.Call(ctx, r.of.coordinator, m)
		if ack, ok := answer.(control.RegisterAck); ok && ack.Refusal != "" {
			return ack, errors.New(ack.Refusal)
		} else if ok {
			return ack, nil
		}
		select {
		case <-time.After(registerAgain):
		case <-ctx.Done():
			return control.RegisterAck{}, fmt.Errorf("%s is not registered: %w", r.name(), cmp.Or(err, ctx.Err()))
		}
	}
}

// Receive does at once what the coordinator asks for. The successor of a shard gets it from its
// last owner, as from a real region.
func (r *simulatedRegion) Receive(_ context.Context, from sharding.NodeID, msgs []control.Message, _ int) error {
	replies := map[*simulatedRegion][]control.Message{}
	for _, m := range msgs {
		switch m := m.(type) {
		case control.HostShard:
			r.serve(m.Shard, true)
			replies[r] = append(replies[r], control.ShardStarted{Shard: m.Shard, Epoch: m.Epoch})
		case control.HandOff:
			r.serve(m.Shard, false)
			replies[r] = append(replies[r], control.ShardStopped{Shard: m.Shard, Epoch: m.Epoch})
			if next := r.of.byAddr[m.Successor.Addr]; next != nil {
				next.serve(m.Shard, true)
				replies[next] = append(replies[next], control.ShardStarted{Shard: m.Shard, Epoch: m.Next})
			}
		}
	}
	go func() {
		for by, done := range replies { // order-free: shards do not depend on each other
			_ = by.api.Send(r.of.ctx, sharding.NodeID{Addr: from.Addr}, done) // the coordinator asks again
		}
	}()
	return nil
}

// Answer is not called: no query reaches these regions.
func (r *simulatedRegion) Answer(context.Context, sharding.NodeID, control.Message, int) (control.Message, error) {
	return control.NotActive{}, nil
}

func (r *simulatedRegion) serve(shard sharding.ShardID, serves bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if serves {
		r.shards[shard] = true
	} else {
		delete(r.shards, shard)
	}
}

// serving counts the shards of all regions.
func (s *simulatedRegions) serving() (n int) {
	for _, r := range s.all {
		r.mu.Lock()
		n += len(r.shards)
		r.mu.Unlock()
	}
	return n
}

// reportLoads reports loads, which follow Zipf's law over every thousand shards.
func (r *simulatedRegion) reportLoads() {
	pause := time.NewTimer(loadEvery * time.Duration(r.number%100) / 100) // not all at the same time
	defer pause.Stop()
	for number := uint64(1); ; number++ {
		select {
		case <-pause.C:
		case <-r.of.ctx.Done():
			return
		}
		m := control.ReportLoad{Number: number, Full: true, Node: control.NodeLoad{Processors: 2, MemoryUsed: 1 << 30, MemoryLimit: 4 << 30}}
		r.mu.Lock()
		for shard := range r.shards { // order-free: the coordinator adds the loads up
			m.Shards = append(m.Shards, control.ShardLoad{Shard: shard, Load: sharding.Load{
				HandlerMicros: 100_000 / uint64(shard.Index%1000+1), MilliCommands: 10_000, Entities: 10, Bytes: 10 << 10,
			}})
		}
		r.mu.Unlock()
		_, _ = r.api.Call(r.of.ctx, r.of.coordinator, m) // the next report replaces it
		pause.Reset(loadEvery)
	}
}

// watch polls the table, as regions and gateways do. It does not keep the rows. If the table has a
// later term, the region registers again.
func (r *simulatedRegion) watch(term sharding.Term) {
	core := routetable.NewWatcher(routetable.DefaultWatchConfig())
	core.SetCandidates([]string{r.of.coordinator}, nil)
	var conn *httpConn
	defer func() {
		if conn != nil {
			conn.close()
		}
	}()
	for r.of.ctx.Err() == nil {
		to, since, ask := core.Poll(time.Now())
		if !ask {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		var err error
		if conn == nil {
			conn, err = dialHTTP(to)
		}
		var delta sharding.TableDelta
		if err == nil {
			if delta, err = r.poll(conn, since); err != nil {
				conn.close()
				conn = nil
			}
		}
		if err != nil {
			core.Failed(time.Now(), to)
			continue
		}
		core.Changed(time.Now(), to, delta)
		if delta.Version.Term > term {
			if ack, err := r.registered(r.of.ctx); err == nil {
				term = ack.Term
			}
		}
	}
}

// poll asks for the table once. Of the answer it returns only the version: a thousand copies of the
// table would take all the memory.
func (r *simulatedRegion) poll(conn *httpConn, since sharding.Version) (delta sharding.TableDelta, err error) {
	if err := conn.nc.SetDeadline(time.Now().Add(routetable.DefaultWatchConfig().Timeout)); err != nil {
		return delta, err
	}
	request, err := proto.Marshal(&controlv1.CallRequest{Cluster: clusterName, From: wire.ToNode(r.node), Message: wire.Encode(control.WatchTable{Version: since})})
	if err != nil {
		return delta, err
	}
	body, err := conn.post([]string{rpc.PathPrefix, "Call"}, "application/protobuf", request)
	if err != nil {
		return delta, err
	}
	r.of.polls.Add(1)
	r.of.tables.Add(int64(len(body)))
	// A CallResponse with a Message with a TableChanged with a Version.
	for _, field := range []protowire.Number{1, 2, 1} {
		if body = fieldOf(body, field); body == nil {
			return delta, errors.New("the answer is not a table")
		}
	}
	var v controlv1.Version
	if err := proto.Unmarshal(body, &v); err != nil {
		return delta, err
	}
	delta.Version = sharding.Version{Term: sharding.Term(v.Term), N: v.N}
	return delta, nil
}

// fieldOf returns the first message in a field of an encoded message; nil: there is none.
func fieldOf(b []byte, field protowire.Number) []byte {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if number == field && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b)
			return value
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return nil
		}
		b = b[n:]
	}
	return nil
}

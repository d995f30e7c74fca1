package server

import (
	"encoding/binary"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/node/telemetry/histogram"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/server/blackbox"
	"github.com/roost-cluster/roost/services/region/suspects"
)

const (
	benchEntities = 10_000 // enough that they are not all in the processor's cache
	benchShards   = 1024
)

// benched counts its commands.
type benched struct{ n uint64 }

func (c *benched) count(*entity.Ctx, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	c.n++
	return &wrapperspb.BytesValue{Value: binary.BigEndian.AppendUint64(make([]byte, 6, 14), c.n)}, nil
}

// counted is a sink that counts answers.
type collected struct {
	mu sync.Mutex
	ok sync.Cond
	n  int
}

func (c *collected) SendBatch(as []link.Answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range as {
		if as[i].NotMine == nil && as[i].Reply.Outcome == sharding.Executed {
			c.n++
		}
	}
	c.ok.Signal()
	return nil
}

func (*collected) Unsent() int { return 0 }
func (*collected) Ended() bool { return false }
func (*collected) Waiting()    {}

// wait waits for the answers to n commands.
func (c *collected) wait(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.n < n {
		c.ok.Wait()
	}
	c.n -= n
}

// benchRunner is a runner with telemetry and a black box, as a region has it.
func benchRunner(b *testing.B, handler func(*benched, *entity.Ctx, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error)) *Runner {
	typ := entity.Define("Counter", func(string) *benched { return &benched{} },
		entity.On(entity.Command[*wrapperspb.BytesValue, *wrapperspb.BytesValue]("Counter", "Count"), handler),
		entity.With[benched](entity.Volatile(), entity.Shards(benchShards), entity.PassivateAfter(0)),
	)
	notes := newNoter()
	self := sharding.NodeID{Addr: "127.0.0.1:1", UID: 1}
	box, _, err := blackbox.Open(filepath.Join(b.TempDir(), "box"), self.UID, suspects.Exit{})
	if err != nil {
		b.Fatal(err)
	}
	notes.box = box
	s, err := NewRunner(RunnerConfig{
		Self: self, Name: "bench", Types: []entity.Definition{typ}, Inbox: 65536, StopTimeout: time.Second, Noter: notes,
		Log: slog.New(slog.DiscardHandler), Histograms: &histogram.Registry{}, Outside: func(region.ControlOutput) {},
	})
	if err != nil {
		b.Fatal(err)
	}
	d := journal.Declaration{Cluster: "bench", Types: []sharding.TypeDesc{s.Types()[0].Desc}}
	back, err := open.Open(b.Context(), "memory:", journal.DefaultConfig())
	if err != nil {
		b.Fatal(err)
	}
	j, err := commit.Open(b.Context(), back, d, journal.DefaultConfig(), s.Observer())
	if err != nil {
		b.Fatal(err)
	}
	s.Use(j)
	var run sync.WaitGroup
	run.Go(s.Run)
	b.Cleanup(func() {
		s.End()
		run.Wait()
		if err := j.Close(); err != nil {
			b.Error(err)
		}
		if err := box.Close(); err != nil {
			b.Error(err)
		}
	})
	for i := range uint32(benchShards) {
		s.Put(region.Received{Msg: control.HostShard{Term: 1, Shard: sharding.ShardID{Type: "Counter", Index: i}, Epoch: sharding.MakeEpoch(1, 1)}})
	}
	for held := 0; held < benchShards; {
		c, err := s.counts(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		held = c.held
	}
	return s
}

// BenchmarkServe is the way of a command through a region, from the decoded command to its answer, in batches
// as they come over a link.
func BenchmarkServe(b *testing.B) {
	for _, batch := range []int{1, 32, 128} {
		b.Run(strconv.Itoa(batch), func(b *testing.B) { benchServe(b, batch, false) })
	}
	b.Run("tell-128", func(b *testing.B) { benchServe(b, 128, true) })
}

func benchServe(b *testing.B, batch int, tell bool) {
	s := benchRunner(b, (*benched).count)
	payload, err := proto.Marshal(&wrapperspb.BytesValue{Value: make([]byte, 62)})
	if err != nil {
		b.Fatal(err)
	}
	cmds := make([]link.Command, benchEntities)
	for i := range cmds {
		id := sharding.EntityID("entity-" + strconv.Itoa(i*7919%benchEntities))
		cmds[i] = link.Command{Number: uint64(i), Epoch: sharding.MakeEpoch(1, 1), Envelope: sharding.Envelope{
			Entity: sharding.Entity{Type: "Counter", ID: id}, Command: "Count", ID: sharding.CommandID("bench-" + strconv.Itoa(i)),
			Encoding: sharding.Protobuf, Payload: payload, Deadline: time.Now().Add(time.Hour), Tell: tell,
		}}
	}
	to := &collected{}
	to.ok.L = &to.mu
	var in [128]link.Command
	serve := func(at int) {
		n := copy(in[:batch], cmds[at:])
		s.Serve(to, in[:n], func() {})
		to.wait(n)
	}
	for at := 0; at < len(cmds); at += batch {
		serve(at)
	}
	b.ReportAllocs()
	at := 0
	for n := 0; b.Loop(); n++ {
		if n%batch != 0 {
			continue // counts commands
		}
		if serve(at); at+2*batch > len(cmds) {
			at = 0
		} else {
			at += batch
		}
	}
}

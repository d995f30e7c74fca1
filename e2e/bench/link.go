package bench

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/roost-cluster/roost/e2e/bench/baseline"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
)

// question is 64 bytes of protobuf.
func question() *wrapperspb.BytesValue { return &wrapperspb.BytesValue{Value: make([]byte, 62)} }

// addressee is an entity with its shard and epoch, as a gateway knows them.
type addressee struct {
	entity sharding.Entity
	shard  uint32
	epoch  sharding.Epoch
}

func (s *testCluster) addressees(typ string, n int) []addressee {
	as := make([]addressee, n)
	for i := range as {
		as[i] = s.addressee(typ, "entity-"+strconv.Itoa(i))
	}
	return as
}

func (s *testCluster) addressee(typ, name string) addressee {
	id := sharding.EntityID(name)
	shard := sharding.ShardID{Type: sharding.EntityType(typ), Index: shardingtest.ShardOf(id, entities.Shards)}
	return addressee{sharding.Entity{Type: shard.Type, ID: id}, shard.Index, s.rows[shard].Epoch}
}

// asker asks entities over a link, as a gateway does: each command has an id and a
// deadline.
type asker struct {
	client  *link.Client
	link    *link.Link
	to      []addressee
	command string
	next    atomic.Uint64
	callers []linkCaller
}

type linkCaller struct {
	out   []byte
	reply sharding.Reply // belongs to the reader until done is signalled
	done  chan struct{}
}

func (r *run) newAsker(s *testCluster, command string, callers int) (*asker, error) {
	a := &asker{command: command, to: s.addressees(entities.EchoType, r.Sizes.Entities), callers: make([]linkCaller, callers)}
	for i := range a.callers {
		a.callers[i].done = make(chan struct{}, 1)
	}
	var err error
	a.client, a.link, err = s.dial(r.ctx, func(as []link.Answer) {
		for i := range as {
			c := &a.callers[as[i].Number]
			c.reply = as[i].Reply
			c.done <- struct{}{}
		}
	})
	return a, err
}

// ask sends one question to the next entity and reads its answer.
func (a *asker) ask(caller int, in, out *wrapperspb.BytesValue) error {
	n := a.next.Add(1)
	return a.askOf(caller, n, a.to[n%uint64(len(a.to))], in, out)
}

// askOf sends the n-th question and reads its answer.
func (a *asker) askOf(caller int, n uint64, to addressee, in, out *wrapperspb.BytesValue) error {
	c := &a.callers[caller]
	var err error
	if c.out, err = (proto.MarshalOptions{}).MarshalAppend(c.out[:0], in); err != nil {
		return err
	}
	command := to.command(uint64(caller), n, c.out)
	command.Envelope.Command = a.command
	command.Envelope.Deadline = time.Now().Add(10 * time.Second)
	if err := a.link.Send(to.shard, &command); err != nil {
		return err
	}
	<-c.done
	if c.reply.Outcome != sharding.Executed {
		return fmt.Errorf("%s: %v %s %s", to.entity, c.reply.Outcome, c.reply.Code, c.reply.Message)
	}
	return proto.Unmarshal(c.reply.Payload, out)
}

func (to *addressee) command(number, n uint64, payload []byte) link.Command {
	var name [24]byte
	return link.Command{Number: number, Epoch: to.epoch, Envelope: sharding.Envelope{
		Entity: to.entity, Command: entities.Ask, ID: sharding.CommandID(strconv.AppendUint(append(name[:0], "bench-"...), n, 36)),
		Encoding: sharding.Protobuf, Payload: payload,
	}}
}

// linkAsks compares asks over a link to entities of a region process with the
// entity mux, and with a link whose other end answers in place.
func (r *run) linkAsks() error {
	s, err := r.sharedCluster()
	if err != nil {
		return err
	}
	targets := map[int]report.Target{
		1: {Ratio: 0.8}, 64: {Ratio: 0.5, P99: time.Millisecond}, 256: {Ratio: 0.5, P99: 2500 * time.Microsecond},
	}
	for _, callers := range []int{1, 64, 256} {
		if err := r.linkAsk(s, callers, targets[callers]); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) linkAsk(s *testCluster, callers int, target report.Target) error {
	mux, err := baseline.DialMux(r.base.Mux, callers)
	if err != nil {
		return err
	}
	defer mux.Close()
	a, err := r.newAsker(s, entities.Ask, callers)
	if err != nil {
		return err
	}
	defer a.client.Close()
	keys := make([]string, len(a.to))
	for i := range keys {
		keys[i] = string(a.to[i].entity.ID)
	}
	var next atomic.Uint64
	ins, outs := make([]*wrapperspb.BytesValue, callers), make([]wrapperspb.BytesValue, callers)
	for i := range ins {
		ins[i] = question()
	}
	return r.compare("asks/s",
		measure.Subject{Name: "entity mux", Processes: []int{r.base.PID}, Run: func(length time.Duration) (measure.Sample, error) {
			return measure.Callers(callers, length, func(c int) error {
				return mux.Ask(c, keys[next.Add(1)%uint64(len(keys))], ins[c], &outs[c])
			})
		}},
		subject{measure.Subject{Name: fmt.Sprint("link-", callers), Processes: []int{s.region.PID}, Run: func(length time.Duration) (measure.Sample, error) {
			return measure.Callers(callers, length, func(c int) error { return a.ask(c, ins[c], &outs[c]) })
		}}, report.Row{Section: "link", Measure: fmt.Sprintf("ask, %d in flight", callers), Target: target}})
}

// linkTells compares tells over a link with those over an entity mux, and with a raw one-way stream of the
// same messages. A tell counts when the region has accepted it.
func (r *run) linkTells() error {
	s, err := r.sharedCluster()
	if err != nil {
		return err
	}
	to := s.addressees(entities.EchoType, r.Sizes.Entities)
	f := newFlood(func(n uint64) *addressee { return &to[n%uint64(len(to))] })
	f.tell = true
	client, l, err := s.dial(r.ctx, f.answered)
	if err != nil {
		return err
	}
	defer client.Close()
	f.send, f.flush = overLink(l), l.Flush
	keys := make([]string, len(to))
	for i := range keys {
		keys[i] = string(to[i].entity.ID)
	}
	against := func(name, what string, target float64, tell func(length time.Duration) (int64, error)) error {
		return r.compare("tells/s",
			measure.Subject{Name: name, Processes: []int{r.base.PID}, Run: func(length time.Duration) (measure.Sample, error) {
				began := time.Now()
				n, err := tell(length)
				return measure.Sample{Ops: n, Elapsed: time.Since(began)}, err
			}},
			subject{measure.Subject{Name: "link-tell", Processes: []int{s.region.PID}, Run: f.run},
				report.Row{Section: "link", Measure: what, Target: report.Target{Ratio: target}}})
	}
	if err := against("entity mux tell", "tell", 0.6, func(length time.Duration) (int64, error) {
		return baseline.MuxTell(r.base.MuxTell, keys, question(), floodWindow, length)
	}); err != nil {
		return err
	}
	return against("raw protobuf tell", "tell, compared with a stream without acknowledgements", 1.5/4.6, func(length time.Duration) (int64, error) {
		return baseline.Tell(r.base.Tell, keys, question(), length)
	})
}

// overLink returns a function that queues commands on a link, and retries while it is full.
func overLink(l *link.Link) func([]addressed) error {
	return func(cs []addressed) error {
		for i := range cs {
			for {
				err := l.Queue(cs[i].shard, &cs[i].Command)
				if err == nil {
					break
				}
				if !errors.Is(err, link.ErrBackpressure) {
					return err
				}
				runtime.Gosched()
			}
		}
		return nil
	}
}

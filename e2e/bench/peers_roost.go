package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure/peer"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/sdk/entity"
)

// RoostProgram is Roost's counterpart of the peers' programs. Its processes are Roost's.
func RoostProgram() *peer.Program {
	return &peer.Program{
		Local: []peer.Way{{Name: "Roost", Open: openLocalPeer}},
		Remote: []peer.Way{
			{Name: "Roost, link of a gateway", Open: openLinkPeer},
			{Name: "Roost, HTTP through a gateway", Open: openHTTPPeer(entities.EchoType, entities.Ask)},
		},
		Replicated: []peer.Way{
			{Name: "Roost, durable", Open: openReplicatedPeer(entities.AccountType, entities.Deposit)},
			{Name: "Roost, volatile", Open: openReplicatedPeer(entities.EchoType, entities.AskJSON)},
		},
		Durable: []peer.Way{{Name: "Roost, HTTP through a gateway", Open: openHTTPPeer(entities.AccountType, entities.Deposit)}},
	}
}

// peerRun is the run that Roost's program needs, for a measure of a peer.
func peerRun(ctx context.Context, o peer.Options) *run {
	return &run{Options: Options{Bin: o.Bin, Dir: o.Dir, Sizes: Sizes{Entities: o.Entities}}, ctx: ctx}
}

func peerName(n int) string { return "entity-" + strconv.Itoa(n) }

// known are addressees made in advance, and others that are new.
type known struct {
	all  []addressee
	make func(name string) addressee
}

func newKnown(count int, make func(name string) addressee) known {
	k := known{make: make}
	for i := range count {
		k.all = append(k.all, make(peerName(i)))
	}
	return k
}

func (k *known) at(n int) addressee {
	if n < len(k.all) {
		return k.all[n]
	}
	return k.make(peerName(n))
}

// tells counts the tells that a region has accepted.
type tells struct {
	n                 uint64 // sent
	accepted, refused atomic.Int64
}

// answered counts answers.
func (t *tells) answered(as []link.Answer) {
	ok := int64(0)
	for i := range as {
		if as[i].NotMine == nil && as[i].Reply.Outcome == sharding.Executed {
			ok++
		}
	}
	t.accepted.Add(ok)
	t.refused.Add(int64(len(as)) - ok)
}

func (t *tells) received() (int64, error) {
	if n := t.refused.Load(); n > 0 {
		return 0, fmt.Errorf("%d tells were refused", n)
	}
	return t.accepted.Load(), nil
}

// next returns the next tell.
func (t *tells) next(to addressee, payload []byte) link.Command {
	t.n++
	c := to.command(t.n, t.n, payload)
	c.Envelope.Tell = true
	return c
}

// SendBatch takes answers of a runner in this process.
func (t *tells) SendBatch(as []link.Answer) error { t.answered(as); return nil }

// Unsent is 0: answers are taken at once.
func (*tells) Unsent() int { return 0 }
func (*tells) Ended() bool { return false }

// Waiting does nothing: answers are not batched.
func (*tells) Waiting() {}

// localPeer is the runner of a region in this process.
type localPeer struct {
	local *local
	known
	asker   *localAsker
	tells   tells
	payload []byte
	n       atomic.Uint64
}

func openLocalPeer(ctx context.Context, o peer.Options) (peer.System, error) {
	l, err := startLocal(ctx, open.At{URL: "sqlite:" + filepath.Join(o.Dir, "local.db")})
	if err != nil {
		return nil, err
	}
	p := &localPeer{local: l, asker: newLocalAsker(l, o.Most())}
	p.known = newKnown(o.Entities, func(name string) addressee { return l.addressee(entities.EchoType, name) })
	if p.payload, err = proto.Marshal(question()); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return p, nil
}

func (p *localPeer) Ask(caller, n int) error {
	to := p.at(n)
	p.asker.callers[caller].command[0] = to.command(uint64(caller), p.n.Add(1), p.payload)
	return p.asker.ask(caller)
}

func (p *localPeer) Tell(n int) error {
	c := [1]link.Command{p.tells.next(p.at(n), p.payload)}
	p.local.runner.Serve(&p.tells, c[:], nil)
	return nil
}

func (p *localPeer) Received() (int64, error) { return p.tells.received() }
func (*localPeer) Processes() []int           { return nil }
func (p *localPeer) Close() error             { return p.local.close() }

// linkPeer does what a gateway does with a region process.
type linkPeer struct {
	cluster *testCluster
	known
	asker   *asker
	ins     []*wrapperspb.BytesValue
	outs    []wrapperspb.BytesValue
	tells   tells
	client  *link.Client
	link    *link.Link
	payload []byte
}

func openLinkPeer(ctx context.Context, o peer.Options) (peer.System, error) {
	r := peerRun(ctx, o)
	s, err := r.startCluster("link", "")
	if err != nil {
		return nil, errors.Join(err, r.end())
	}
	p := &linkPeer{cluster: s, ins: make([]*wrapperspb.BytesValue, o.Most()), outs: make([]wrapperspb.BytesValue, o.Most())}
	for i := range p.ins {
		p.ins[i] = question()
	}
	p.known = newKnown(o.Entities, func(name string) addressee { return s.addressee(entities.EchoType, name) })
	p.payload, err = proto.Marshal(question())
	if err == nil {
		p.asker, err = r.newAsker(s, entities.Ask, o.Most())
	}
	if err == nil {
		p.client, p.link, err = s.dial(ctx, p.tells.answered)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return p, nil
}

func (p *linkPeer) Ask(caller, n int) error {
	return p.asker.askOf(caller, p.asker.next.Add(1), p.at(n), p.ins[caller], &p.outs[caller])
}

func (p *linkPeer) Tell(n int) error {
	to := p.at(n)
	c := p.tells.next(to, p.payload)
	for {
		err := p.link.Queue(to.shard, &c)
		if !errors.Is(err, link.ErrBackpressure) {
			return err
		}
		runtime.Gosched()
	}
}

func (p *linkPeer) Received() (int64, error) {
	p.link.Flush()
	return p.tells.received()
}

func (p *linkPeer) Processes() []int { return []int{p.cluster.region.PID} }

func (p *linkPeer) Close() error {
	p.client.Close()
	p.asker.client.Close()
	return p.cluster.close()
}

// httpPeer asks through a gateway.
type httpPeer struct {
	cluster *testCluster
	typ     string
	command string
	content string
	body    []byte
	conns   []*httpConn
}

func openHTTPPeer(typ, command string) func(context.Context, peer.Options) (peer.System, error) {
	return func(ctx context.Context, o peer.Options) (peer.System, error) {
		p := &httpPeer{typ: typ, command: command, content: jsonType, body: questionJSON}
		var err error
		if command == entities.Ask {
			if p.body, err = proto.Marshal(question()); err != nil {
				return nil, err
			}
			p.content = protobufType
		}
		if p.cluster, err = peerRun(ctx, o).startCluster("http", ""); err != nil {
			return nil, err
		}
		for range o.Most() {
			c, err := dialHTTP(p.cluster.gateway.Service)
			if err != nil {
				return nil, errors.Join(err, p.Close())
			}
			p.conns = append(p.conns, c)
		}
		return p, nil
	}
}

func (p *httpPeer) Ask(caller, n int) error {
	answer, err := p.conns[caller].post([]string{"/v1/", p.typ, "/", peerName(n), "/", p.command}, p.content, p.body)
	if err == nil && len(answer) < 16 {
		err = fmt.Errorf("answer of %d bytes: %q", len(answer), answer)
	}
	return err
}

func (p *httpPeer) Processes() []int {
	return []int{p.cluster.gateway.PID, p.cluster.region.PID}
}

func (p *httpPeer) Close() error {
	for _, c := range p.conns {
		c.close()
	}
	return p.cluster.close()
}

// replicatedPeer is a cluster of three regions, with two coordinators and two gateways.
type replicatedPeer struct {
	*faultRun
	typ string
	ask *entity.Handle[entities.Question, entities.Answer]
}

func openReplicatedPeer(typ, command string) func(context.Context, peer.Options) (peer.System, error) {
	return func(ctx context.Context, o peer.Options) (peer.System, error) {
		f, err := peerRun(ctx, o).startFaultRun(typ, nil)
		if err != nil {
			return nil, err
		}
		if err := f.ready(); err != nil {
			f.close()
			return nil, err
		}
		return &replicatedPeer{f, typ, entity.Command[entities.Question, entities.Answer](typ, command)}, nil
	}
}

func (p *replicatedPeer) Ask(_, n int) error {
	ctx, cancel := context.WithTimeout(p.ctx, deadline)
	defer cancel()
	return p.Call(ctx, n)
}

func (p *replicatedPeer) Call(ctx context.Context, n int) error {
	_, err := p.ask.Call(ctx, p.client, peerName(n), entities.Question{Data: "a"})
	return err
}

func (p *replicatedPeer) Owners() ([]int, error) {
	owners := make([]int, p.Sizes.Entities)
	for i := range owners {
		owners[i] = -1
	}
	for member, region := range p.running(cluster.Region) {
		res, err := p.admin.Shards(p.ctx, p.typ, region.Name)
		if err != nil {
			return nil, err
		}
		owned := map[uint32]bool{}
		for _, s := range res.Shards {
			owned[s.Index] = true
		}
		for n := range owners {
			if owned[shardingtest.ShardOf(sharding.EntityID(peerName(n)), entities.Shards)] {
				owners[n] = member
			}
		}
	}
	return owners, nil
}

func (p *replicatedPeer) Kill(member int) error {
	return p.faultRun.cluster.Kill(p.running(cluster.Region)[member].Name)
}

func (p *replicatedPeer) Processes() []int { return nil }

func (p *replicatedPeer) Close() error { p.close(); return nil }

package diagnosis

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/bounded"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

const (
	// maxGateways and maxCoordinators bound the number of them that get a question. Further ones would hardly add
	// anything new.
	maxGateways, maxCoordinators = 16, 8
	// maxText is the length of the part of a party's error that is passed on, in bytes.
	maxText = 300
	// maxExplaining is the number of entities that a process explains concurrently. Further requests are
	// refused.
	maxExplaining = 4
	// maxAnswer is the longest answer of a party, in bytes. The stack of a turn takes most of it.
	maxAnswer = 1 << 20
)

// Peers connects to other processes. *rpc.Peers implements it.
type Peers interface {
	Reach(roles control.Role, addr string) (client *http.Client, url string)
	// ReachGateway is Reach for a gateway. One that has no address for peers is reached at its management listener with
	// the client given.
	ReachGateway(peers, management string, plain *http.Client) (client *http.Client, url string)
}

// Explainer explains entities for operators, at one coordinator or gateway.
type Explainer struct {
	Cluster string
	Name    string
	Self    sharding.NodeID
	Role    Role
	Peers   Peers
	// OutOfReach returns the reason why the process at self must not query a gateway; nil: it can.
	OutOfReach func(self, gateway, peers, management string) error
	Observe    Observe
	// Coordinators returns the addresses of the coordinators to ask: of the active one, or if it is not known, of all
	// that may be active. It is not called at the active coordinator.
	Coordinators func() []string

	management *http.Client
	slots      chan struct{}
}

// Ready makes the explainer usable.
func (e Explainer) Ready() *Explainer {
	e.management = &http.Client{Transport: bounded.Limits{Body: maxAnswer}.Transport(&http.Transport{MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second})}
	e.slots = make(chan struct{}, maxExplaining)
	return &e
}

// Explain finds out why a command for an entity waits or fails now.
func (e *Explainer) Explain(ctx context.Context, req *diagnosisv1.ExplainRequest) (*diagnosisv1.ExplainResponse, error) {
	entity := sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}
	if err := entity.Check(); err != nil {
		return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
	}
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	default:
		return nil, twirp.NewErrorf(twirp.ResourceExhausted, "%d entities are being explained here already; try again", maxExplaining)
	}
	began := time.Now()
	g := &gathering{e: e, req: req, asked: map[string]bool{}}
	g.gather(ctx)
	return g.answer(began), nil
}

// gathering collects the evidence for one explanation.
type gathering struct {
	e   *Explainer
	req *diagnosisv1.ExplainRequest

	wait  sync.WaitGroup
	mu    sync.Mutex // guards what follows
	asked map[string]bool
	list  []*party
}

type party struct {
	Party
	took time.Duration
}

// gather asks this process, then the parties that this process knows, and then the parties that the answers name. So
// each party gets its question as soon as it is known. That takes two steps at most: the parties in the own route table
// get the question at once, and those that the coordinator names when it has answered.
func (g *gathering) gather(ctx context.Context) {
	own := &party{Party: Party{Role: g.e.Role, Name: g.e.ownName(), Addr: g.e.Self.Addr, UID: uint64(g.e.Self.UID), Asker: true}}
	g.list, g.asked[g.e.Self.Addr] = append(g.list, own), true
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, Patience-reserve)
	said, err := g.e.Observe(limited, g.question(0))
	cancel()
	own.took = time.Since(began)
	if err != nil {
		own.Result, own.Error = Failed, text(err)
	} else {
		own.Result, own.Said = Answered, said
		own.Name = cmp.Or(said.Name, own.Name)
	}
	if !said.GetCoordinator().GetActive() {
		addrs := g.e.Coordinators()
		for _, addr := range addrs[:min(len(addrs), maxCoordinators)] {
			g.ask(ctx, Coordinator, addr, addr, 0)
		}
	}
	g.follow(ctx, said)
	g.wait.Wait()
}

// ownName returns what operators call this process. Gateways have no names.
func (e *Explainer) ownName() string {
	if e.Role == Gateway {
		return e.Self.Addr
	}
	return e.Name
}

func (g *gathering) question(to uint64) *inspectionv1.ObserveRequest {
	return &inspectionv1.ObserveRequest{Cluster: g.e.Cluster, To: to, Type: g.req.Type, Id: g.req.Id, Stack: g.req.Stack}
}

// follow asks the parties that an answer names.
func (g *gathering) follow(ctx context.Context, said *inspectionv1.Observation) {
	if r := said.GetGateway().GetRow(); r.GetOwner() != "" {
		g.ask(ctx, Region, r.Owner, r.Owner, r.Uid)
	}
	c := said.GetCoordinator()
	if c == nil {
		return
	}
	if !c.Active {
		if c.ActiveAddr != "" {
			g.ask(ctx, Coordinator, c.ActiveAddr, c.ActiveAddr, 0)
		}
		return
	}
	if r := c.Row; r.GetOwner() != "" {
		g.ask(ctx, Region, r.Owner, cmp.Or(c.Owner, r.Owner), r.Uid)
	}
	if c.NextAddr != "" {
		g.ask(ctx, Region, c.NextAddr, cmp.Or(c.Next, c.NextAddr), c.NextUid)
	}
	for _, gw := range c.Gateways[:min(len(c.Gateways), maxGateways)] {
		g.askGateway(ctx, gw)
	}
}

// ask asks a party at its service listener, once.
func (g *gathering) ask(ctx context.Context, role Role, addr, name string, uid uint64) {
	roles := control.Region
	if role == Coordinator {
		roles = control.Coordinator
	}
	client, url := g.e.Peers.Reach(roles, addr)
	g.askAt(ctx, &party{Party: Party{Role: role, Name: name, Addr: addr, UID: uid}}, addr, url, client)
}

// askGateway asks a gateway at its listener for peers, or at its management listener if it has no other.
func (g *gathering) askGateway(ctx context.Context, gw *inspectionv1.ObservedGateway) {
	p := &party{Party: Party{Role: Gateway, Name: gw.Addr, Addr: gw.Addr, UID: gw.Uid}}
	at := cmp.Or(gw.Peers, gw.Management)
	if err := g.e.OutOfReach(g.e.Self.Addr, gw.Addr, gw.Peers, gw.Management); err != nil {
		p.Result, p.Error = Failed, err.Error()
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.asked[p.Addr] {
			g.asked[p.Addr] = true
			g.list = append(g.list, p)
		}
		return
	}
	client, url := g.e.Peers.ReachGateway(gw.Peers, gw.Management, g.e.management)
	g.askAt(ctx, p, at, url, client)
}

func (g *gathering) askAt(ctx context.Context, p *party, addr, url string, client *http.Client) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked[p.Addr] {
		g.rename(p)
		return
	}
	g.asked[p.Addr] = true
	g.list = append(g.list, p)
	g.wait.Go(func() {
		began := time.Now()
		result, said, err := inquire(ctx, addr, inspectionv1.NewObserverProtobufClient(url, client), g.question(p.UID))
		g.mu.Lock()
		if p.Result, p.Said, p.took = result, said, time.Since(began); result == Failed { // otherwise the result says it
			p.Error = text(err)
		}
		p.Name = cmp.Or(said.GetName(), p.Name)
		g.mu.Unlock()
		g.follow(ctx, said)
	})
}

// rename sets the name of a party that was asked when only its address was known. The lock must be held.
func (g *gathering) rename(named *party) {
	for _, p := range g.list {
		if p.Addr == named.Addr && p.Name == p.Addr {
			p.Name = named.Name
		}
	}
}

// inquire asks a process, and finds out why it does not answer. For that it opens a connection concurrently with the
// question: what happens to the connection distinguishes a process that has ended, one that is paused, and one that is
// cut off.
func inquire(ctx context.Context, addr string, o inspectionv1.Observer, req *inspectionv1.ObserveRequest) (Result, *inspectionv1.Observation, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	dialled := make(chan error, 1)
	go func() {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		dialled <- err
	}()
	said, err := o.Observe(ctx, req)
	if err == nil {
		return Answered, said, nil
	}
	late := ctx.Err() != nil
	return resultOf(err, <-dialled, late), nil, err
}

// resultOf returns the outcome of a question that has failed with err. dial is the error of the connection that was
// opened concurrently, and late is true if the time for an answer was over.
func resultOf(err, dial error, late bool) Result {
	var e twirp.Error
	var op *net.OpError
	switch {
	case errors.Is(dial, syscall.ECONNREFUSED):
		return Refused
	case dial != nil:
		return Unreached
	case errors.As(err, &e) && errors.Unwrap(e) == nil, errors.As(err, &op) && op.Op == "dial": // its own word, or a handshake
		return Failed
	case late:
		return Silent
	}
	return Failed
}

// text returns an error in words for operators.
func text(err error) string {
	var e twirp.Error
	t := err.Error()
	if errors.As(err, &e) {
		if t = e.Msg(); e.Code() == twirp.BadRoute {
			t = "it runs a release of Roost that cannot be queried"
		}
	}
	return strings.ToValidUTF8(t[:min(len(t), maxText)], "\ufffd")
}

// answer returns the diagnosis, with the evidence for it.
func (g *gathering) answer(began time.Time) *diagnosisv1.ExplainResponse {
	ev := &Evidence{Type: g.req.Type, ID: g.req.Id}
	out := &diagnosisv1.ExplainResponse{Type: g.req.Type, Id: g.req.Id, By: g.e.ownName()}
	slices.SortStableFunc(g.list, func(a, b *party) int { return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name)) })
	for _, p := range g.list {
		ev.Parties = append(ev.Parties, p.Party)
		out.Parties = append(out.Parties, &diagnosisv1.Party{
			Role: string(p.Role), Name: p.Name, Addr: p.Addr, Result: string(p.Result), Error: p.Error, TookUs: p.took.Microseconds(), Facts: Facts(&p.Party),
		})
		if s := p.Said.GetRegion().GetStack(); s != "" {
			out.Stack = s
		}
		for _, row := range []*inspectionv1.ObservedRow{p.Said.GetGateway().GetRow(), p.Said.GetCoordinator().GetRow()} {
			if row != nil {
				out.Index = &row.Index
			}
		}
	}
	out.Findings = Of(ev)
	out.TookUs = time.Since(began).Microseconds()
	return out
}

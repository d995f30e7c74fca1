package diagnosis

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// process serves the questions to one process of a fake cluster.
func process(t *testing.T, uid uint64, o Observe) (addr string) {
	t.Helper()
	srv := httptest.NewServer(inspectionv1.NewObserverServer(NewObserver("dev", sharding.NodeID{UID: sharding.NodeUID(uid)}, o, nil)))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

// plain reaches processes without TLS.
type plain struct{ client *http.Client }

func (p plain) Reach(_ control.Role, addr string) (*http.Client, string) {
	return p.client, "http://" + addr
}

func (p plain) ReachGateway(_, management string, client *http.Client) (*http.Client, string) {
	return client, "http://" + management
}

func explainer(t *testing.T, o Observe, coordinators ...string) *Explainer {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return Explainer{
		Cluster: "dev", Name: "gateway-1", Self: sharding.NodeID{Addr: "127.0.0.1:1", UID: 1}, Role: Gateway, Peers: plain{client}, OutOfReach: func(_, _, _, _ string) error { return nil },
		Observe: o, Coordinators: func() []string { return coordinators },
	}.Ready()
}

// TestFollows: the parties that an answer names are queried, once, and the answer has the results.
func TestFollows(t *testing.T) {
	var asked atomic.Int32
	region := process(t, 11, func(context.Context, *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error) {
		asked.Add(1)
		return &inspectionv1.Observation{Name: "region-1", Region: &inspectionv1.RegionObservation{TypeHosted: true, Core: true, Shard: "serving", Epoch: 5, Stack: "goroutine 1",
			Entity: &inspectionv1.ActiveEntity{State: "active", Running: "Do", RunningMs: 5000}}}, nil
	})
	row := &inspectionv1.ObservedRow{Index: 3, Owner: region, Uid: 11, Epoch: 5, Phase: "serving"}
	other := process(t, 31, func(context.Context, *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error) {
		return &inspectionv1.Observation{Name: "g:2", Gateway: &inspectionv1.GatewayObservation{Table: true, TypeKnown: true, Row: row, Room: 1}}, nil
	})
	active := process(t, 21, func(context.Context, *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error) {
		return &inspectionv1.Observation{Name: "coordinator-1", Coordinator: &inspectionv1.CoordinatorObservation{
			Active: true, TypeKnown: true, Hosts: 1, Usable: 1, Row: row, Owner: "region-1",
			Gateways: []*inspectionv1.ObservedGateway{{Addr: "g:2", Uid: 31, Management: other}, {Addr: "127.0.0.1:1", Uid: 1, Management: "127.0.0.1:2"}},
		}}, nil
	})
	standby := process(t, 22, func(context.Context, *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error) {
		return &inspectionv1.Observation{Name: "coordinator-2", Coordinator: &inspectionv1.CoordinatorObservation{ActiveAddr: active}}, nil
	})
	e := explainer(t, func(context.Context, *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error) {
		return &inspectionv1.Observation{Name: "127.0.0.1:1", Gateway: &inspectionv1.GatewayObservation{Table: true, TypeKnown: true, Row: row, Room: 1}}, nil
	}, standby)
	res, err := e.Explain(t.Context(), &diagnosisv1.ExplainRequest{Type: "Cart", Id: "anna", Stack: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range res.Parties {
		got = append(got, p.Role+" "+p.Name+" "+p.Result)
	}
	want := "coordinator coordinator-1 answered, coordinator coordinator-2 answered, gateway 127.0.0.1:1 answered, gateway g:2 answered, region region-1 answered"
	if strings.Join(got, ", ") != want || asked.Load() != 1 {
		t.Errorf("%d questions to the region; asked were %q", asked.Load(), got)
	}
	if res.GetIndex() != 3 || res.Stack != "goroutine 1" || res.Findings[0].Name != string(HandlerStuck) {
		t.Errorf("%v", res)
	}
}

// TestSilence: what becomes of a connection tells why a process does not answer.
func TestSilence(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // no accept, as in a paused process
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = deaf.Close() })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	stranger := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(stranger.Close)
	other := process(t, 12, func(context.Context, *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error) {
		return nil, nil
	})
	for _, c := range []struct {
		addr string
		want Result
		text string
	}{
		{deaf.Addr().String(), Silent, ""},
		{gone.Addr().String(), Refused, ""},
		{strings.TrimPrefix(stranger.URL, "http://"), Failed, "cannot be queried"},
		{other, Failed, "another incarnation"},
	} {
		row := &inspectionv1.ObservedRow{Owner: c.addr, Uid: 11, Epoch: 5, Phase: "serving"}
		e := explainer(t, func(context.Context, *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error) {
			return &inspectionv1.Observation{Gateway: &inspectionv1.GatewayObservation{Table: true, TypeKnown: true, Row: row, Room: 1}}, nil
		})
		res, err := e.Explain(t.Context(), &diagnosisv1.ExplainRequest{Type: "Cart", Id: "anna"})
		if err != nil {
			t.Fatal(err)
		}
		if p := res.Parties[1]; p.Result != string(c.want) || !strings.Contains(p.Error, c.text) {
			t.Errorf("%s is %s: %s", c.addr, p.Result, p.Error)
		}
	}
	// No packet comes back: that cannot be had from a listener.
	lost := &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	if got := resultOf(errors.New("late"), lost, true); got != Unreached {
		t.Errorf("a lost connection is %s", got)
	}
	if got := resultOf(errors.New("tls: bad certificate"), nil, false); got != Failed {
		t.Errorf("a failed handshake is %s", got)
	}
}

// TestRefusesQuestions: a question must be meant for this process, and be about an entity; too many are
// refused.
func TestRefusesQuestions(t *testing.T) {
	hold := make(chan struct{})
	o := NewObserver("dev", sharding.NodeID{UID: 7}, func(context.Context, *inspectionv1.ObserveRequest) (*inspectionv1.Observation, error) {
		<-hold
		return &inspectionv1.Observation{}, nil
	}, func() *inspectionv1.Process { return &inspectionv1.Process{Name: "me"} })
	ended := make(chan error, maxObservations)
	ask := func(req *inspectionv1.ObserveRequest) twirp.ErrorCode {
		_, err := o.Observe(t.Context(), req)
		var e twirp.Error
		errors.As(err, &e)
		return e.Code()
	}
	good := &inspectionv1.ObserveRequest{Cluster: "dev", To: 7, Type: "Cart", Id: "anna"}
	for range maxObservations {
		go func() { _, err := o.Observe(t.Context(), good); ended <- err }()
	}
	for len(o.slots) < maxObservations {
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
	}
	for _, c := range []struct {
		req  *inspectionv1.ObserveRequest
		want twirp.ErrorCode
	}{
		{&inspectionv1.ObserveRequest{Cluster: "prod", Type: "Cart", Id: "anna"}, twirp.FailedPrecondition},
		{&inspectionv1.ObserveRequest{Cluster: "dev", To: 8, Type: "Cart", Id: "anna"}, twirp.FailedPrecondition},
		{&inspectionv1.ObserveRequest{Cluster: "dev", Type: "Cart"}, twirp.InvalidArgument},
		{good, twirp.ResourceExhausted},
	} {
		if got := ask(c.req); got != c.want {
			t.Errorf("%v is answered %s, want %s", c.req, got, c.want)
		}
	}
	if p, err := o.Describe(t.Context(), &inspectionv1.DescribeRequest{Cluster: "dev", To: 7}); err != nil || p.Name != "me" {
		t.Errorf("described as %v: %v", p, err)
	}
	if _, err := o.Describe(t.Context(), &inspectionv1.DescribeRequest{Cluster: "dev", To: 8}); err == nil {
		t.Error("another one is described")
	}
	close(hold)
	for range maxObservations {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

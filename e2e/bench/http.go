package bench

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/e2e/bench/baseline"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
	gatewayv1 "github.com/roost-cluster/roost/proto/roost/gateway/v1"
)

const (
	jsonType     = "application/json"
	protobufType = "application/protobuf"
	connections  = 64
)

// questionJSON is 64 bytes of JSON.
var questionJSON = []byte(`{"data":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`)

// posting is a load of HTTP requests on one server: what to send for the n-th
// one.
type posting struct {
	addr        string
	contentType string
	path        func(n uint64) []string
	body        func(n uint64) []byte
	connections int
}

// load opens connections for the length of a run.
func (p posting) load(length time.Duration) (measure.Sample, error) {
	bs := make([]*browser, p.connections)
	for i := range bs {
		var err error
		if bs[i], err = browse(p.addr); err != nil {
			return measure.Sample{}, err
		}
		defer bs[i].close()
	}
	var next atomic.Uint64
	return measure.Callers(p.connections, length, func(c int) error {
		n := next.Add(1)
		answer, err := bs[c].post(p.path(n), p.contentType, p.body(n))
		if err == nil && len(answer) < 16 {
			err = fmt.Errorf("answer of %d bytes: %q", len(answer), answer)
		}
		return err
	})
}

// same is a path or a body that is always the same.
func same[T any](v T) func(uint64) T { return func(uint64) T { return v } }

// entityPath is that of a command of one of so many entities.
func entityPath(typ, command string, count int) func(uint64) []string {
	ids := make([]string, count)
	for i := range ids {
		ids[i] = "entity-" + strconv.Itoa(i)
	}
	return func(n uint64) []string { return []string{"/v1/", typ, "/", ids[n%uint64(count)], "/", command} }
}

// httpAsks compares asks by HTTP through gateway and region with servers that
// answer at once, under the same client.
func (r *run) httpAsks() error {
	s, err := r.started()
	if err != nil {
		return err
	}
	ours := []int{s.gateway.PID, s.region.PID}
	through := func(name, measured string, target report.Target, p posting) wanted {
		p.addr, p.connections = s.gateway.Service, connections
		return wanted{measure.Subject{Name: name, Processes: ours, Run: p.load}, report.Row{Section: "HTTP", Measure: measured, Target: target}}
	}
	base := func(name string, p posting) measure.Subject {
		p.addr, p.connections = r.base.HTTP, connections
		return measure.Subject{Name: name, Processes: []int{r.base.PID}, Run: p.load}
	}
	if err := r.compare("asks/s",
		base("net/http JSON echo", posting{contentType: jsonType, path: same([]string{baseline.EchoPath}), body: same(questionJSON)}),
		through("http-json", "JSON ask, 64 connections", report.Target{Ratio: 0.5, P99: 10 * time.Millisecond},
			posting{contentType: jsonType, path: entityPath(entities.EchoType, entities.AskJSON, r.Sizes.Entities), body: same(questionJSON)}),
	); err != nil {
		return err
	}
	message, err := proto.Marshal(question())
	if err != nil {
		return err
	}
	bodies, err := twirpBodies(r.Sizes.Entities, message)
	if err != nil {
		return err
	}
	twirp := func(n uint64) []byte { return bodies[n%uint64(len(bodies))] }
	path := same([]string{gatewayv1.EntitiesPathPrefix, "Ask"})
	return r.compare("asks/s",
		base("bare Twirp echo", posting{contentType: protobufType, path: path, body: twirp}),
		through("http-protobuf", "protobuf ask, 64 connections", report.Target{},
			posting{contentType: protobufType, path: entityPath(entities.EchoType, entities.Ask, r.Sizes.Entities), body: same(message)}),
		through("http-twirp", "Twirp ask, 64 connections", report.Target{}, posting{contentType: protobufType, path: path, body: twirp}))
}

// twirpBodies are requests to entities.
func twirpBodies(count int, message []byte) ([][]byte, error) {
	bodies := make([][]byte, count)
	for i := range bodies {
		var err error
		if bodies[i], err = proto.Marshal(&gatewayv1.AskRequest{
			Type: entities.EchoType, Id: "entity-" + strconv.Itoa(i), Command: entities.Ask,
			Payload: message, Encoding: gatewayv1.Encoding_ENCODING_PROTOBUF,
		}); err != nil {
			return nil, err
		}
	}
	return bodies, nil
}

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

// httpLoad is a load of HTTP requests on one server: path and body of the n-th one.
type httpLoad struct {
	addr        string
	contentType string
	path        func(n uint64) []string
	body        func(n uint64) []byte
	connections int
}

// run sends requests over new connections for a time.
func (p httpLoad) run(length time.Duration) (measure.Sample, error) {
	bs := make([]*httpConn, p.connections)
	for i := range bs {
		var err error
		if bs[i], err = dialHTTP(p.addr); err != nil {
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

// same returns a path or a body that is always the same.
func same[T any](v T) func(uint64) T { return func(uint64) T { return v } }

// entityPath returns the path of a command to one of count entities.
func entityPath(typ, command string, count int) func(uint64) []string {
	ids := make([]string, count)
	for i := range ids {
		ids[i] = "entity-" + strconv.Itoa(i)
	}
	return func(n uint64) []string { return []string{"/v1/", typ, "/", ids[n%uint64(count)], "/", command} }
}

// httpAsks compares asks by HTTP through gateway and region with servers that answer at
// once, with the same client.
func (r *run) httpAsks() error {
	s, err := r.sharedCluster()
	if err != nil {
		return err
	}
	ours := []int{s.gateway.PID, s.region.PID}
	through := func(name, measured string, target report.Target, p httpLoad) subject {
		p.addr, p.connections = s.gateway.Service, connections
		return subject{measure.Subject{Name: name, Processes: ours, Run: p.run}, report.Row{Section: "HTTP", Measure: measured, Target: target}}
	}
	base := func(name string, p httpLoad) measure.Subject {
		p.addr, p.connections = r.base.HTTP, connections
		return measure.Subject{Name: name, Processes: []int{r.base.PID}, Run: p.run}
	}
	if err := r.compare("asks/s",
		base("net/http JSON echo", httpLoad{contentType: jsonType, path: same([]string{baseline.EchoPath}), body: same(questionJSON)}),
		through("http-json", "JSON ask, 64 connections", report.Target{Ratio: 0.5, P99: 10 * time.Millisecond},
			httpLoad{contentType: jsonType, path: entityPath(entities.EchoType, entities.AskJSON, r.Sizes.Entities), body: same(questionJSON)}),
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
		base("bare Twirp echo", httpLoad{contentType: protobufType, path: path, body: twirp}),
		through("http-protobuf", "protobuf ask, 64 connections", report.Target{},
			httpLoad{contentType: protobufType, path: entityPath(entities.EchoType, entities.Ask, r.Sizes.Entities), body: same(message)}),
		through("http-twirp", "Twirp ask, 64 connections", report.Target{}, httpLoad{contentType: protobufType, path: path, body: twirp}))
}

// twirpBodies returns requests to count entities.
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

package server

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/roost-cluster/roost/libs/errornumber"
	"github.com/roost-cluster/roost/libs/node"
	nodetelemetry "github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/node/telemetry/histogram"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

const scope = "github.com/roost-cluster/roost/libs/router"

// telemetry has the gateway's metrics and spans. Entity ids are never attributes of
// metrics: there are too many.
type telemetry struct {
	tracer    trace.Tracer
	records   bool // spans go somewhere
	propagate propagation.TextMapPropagator
	duration  *histogram.Histogram
	hops      *histogram.Series
	retries   metric.Int64Counter
	versions  metric.Int64Counter // commands that the version which serves their entity does not have
	dropped   metric.Int64Counter // messages to coordinators that found no room
}

func (s *Server) instrument(n *node.Node) error {
	_, silent := n.TracerProvider().(noop.TracerProvider)
	t := &s.telemetry
	t.tracer, t.records, t.propagate = n.TracerProvider().Tracer(scope), !silent, nodetelemetry.Propagator()
	t.duration = n.Histograms().New(histogram.Desc{
		Scope: scope, Name: "roost.gateway.request.duration", Unit: "s", Bounds: histogram.Seconds,
		Description: "time from the arrival of a command at the gateway to its answer",
	})
	t.hops = n.Histograms().New(histogram.Desc{
		Scope: scope, Name: "roost.gateway.hops", Unit: "{attempt}", Bounds: []float64{0, 1, 2, 3, 5, 8},
		Description: "number of times that one command was sent. More than 1: the shard moved, or an answer was lost",
	}).With().Declare()
	meter := nodetelemetry.NewInstruments(n.MeterProvider().Meter(scope))
	t.dropped = meter.Counter("roost.gateway.messages.dropped", "{message}",
		"requests for the owners of shards that the gateway dropped, because too many requests to the coordinator were waiting. Each will be repeated")
	t.retries = meter.Counter("roost.gateway.retries", "{attempt}",
		"repeated sends of commands")
	t.versions = meter.Counter("roost.gateway.other_version", "{command}",
		"commands that were refused because the version that serves their entity does not have the command, but another version does")
	return s.gauges(meter)
}

// gauges registers the gauges, which are read inside the loop.
func (s *Server) gauges(meter *nodetelemetry.Instruments) error {
	requests := meter.Gauge("roost.gateway.requests", "{command}", "commands that are admitted and not answered")
	size := meter.Gauge("roost.gateway.bytes", "By", "size of the commands that are admitted and not answered")
	waiting := meter.Gauge("roost.gateway.waiting", "{command}", "admitted commands that wait to be sent")
	deferred := meter.Gauge("roost.gateway.deferred", "{command}", "commands that are deferred: they wait, or have waited, until their shard moves to a version that has the command")
	links := meter.Gauge("roost.gateway.links", "{link}", "regions that rows of the route table name")
	up := meter.Gauge("roost.gateway.links.up", "{link}", "regions in rows of the route table that have an open link")
	return meter.Observe(func(ctx context.Context, o metric.Observer) error {
		if s.router.Ended() {
			return nil // the loop has ended; the last export has only the metrics that do not come from it
		}
		var st router.Stats
		var open int
		if err := s.router.Inside(ctx, func() error { st, open = s.router.Core().Stats(), s.router.OpenLinks(); return nil }); err != nil {
			return err
		}
		o.ObserveInt64(requests, int64(st.Requests))
		o.ObserveInt64(size, int64(st.Bytes))
		o.ObserveInt64(waiting, int64(st.Waiting))
		o.ObserveInt64(deferred, int64(st.Deferred))
		o.ObserveInt64(links, int64(st.Links))
		o.ObserveInt64(up, int64(open))
		return nil
	})
}

// observe records an ended request with its number of attempts.
func (s *Server) observe(c *call, f *failure, attempts int) {
	s.keepSlow(c, f, attempts)
	m := s.types.Load().measures(c.Env.Entity.Type)
	m.of(f).Record(time.Since(c.arrived).Seconds())
	if f != nil && f.number == errornumber.OtherVersion {
		s.telemetry.versions.Add(s.ctx, 1)
	}
	if attempts > 0 {
		s.telemetry.hops.Record(float64(attempts))
	}
	if attempts > 1 {
		s.telemetry.retries.Add(s.ctx, int64(attempts-1))
	}
}

// startServer starts the span of a request, as a child of the client's. The span is nil
// if it would not be recorded.
func (s *Server) startServer(r *http.Request, name string) (context.Context, trace.Span) {
	ctx := r.Context()
	if r.Header["Traceparent"] != nil {
		ctx = s.telemetry.propagate.Extract(ctx, propagation.HeaderCarrier(r.Header))
	} else if !s.telemetry.records {
		return ctx, nil
	}
	return s.telemetry.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", r.Method)))
}

// endServer ends the span of a request of the plain API.
func endServer(span trace.Span, c *call, f *failure) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	status := http.StatusOK
	if f != nil {
		if status = f.httpStatus(); status >= 500 || f.outcome == sharding.Unknown {
			span.SetStatus(otelcodes.Error, f.message)
		}
		span.SetAttributes(attribute.String("error.type", string(f.code)), attribute.String("roost.outcome", f.outcome.String()))
	}
	span.SetAttributes(attribute.String("http.route", route), attribute.Int("http.response.status_code", status))
	span.SetAttributes(attribute.String("roost.entity.type", string(c.Env.Entity.Type)),
		attribute.String("roost.entity.id", string(c.Env.Entity.ID)), attribute.String("roost.command", c.Env.Command))
}

// startRoute starts the span of the way to the region and back, which the region
// continues, if the request has a span.
func (s *Server) startRoute(ctx context.Context, c *call) trace.Span {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	ctx, span := s.telemetry.tracer.Start(ctx, "roost.route", trace.WithSpanKind(trace.SpanKindClient))
	c.Env.Trace = traceparent(ctx)
	return span
}

// endRoute ends the span; f is nil if the client has gone.
func (s *Server) endRoute(span trace.Span, f *router.Finish) {
	if span == nil {
		return
	}
	if f != nil && span.IsRecording() {
		span.SetAttributes(attribute.Int("roost.attempts", f.Attempts), attribute.String("roost.region", f.Region.Addr),
			attribute.String("roost.outcome", f.Reply.Outcome.String()))
	}
	span.End()
}

// traceparent returns the W3C header of the span in ctx; empty unless it is sampled, so
// that regions do no work for traces that are not recorded.
func traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

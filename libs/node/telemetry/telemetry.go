package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/roost-cluster/roost/libs/node/telemetry/histogram"
)

// telemetry holds the providers of a node. Metrics are always served to Prometheus;
// traces and metrics are pushed only if the standard OTEL_* variables say where.
type Providers struct {
	Tracers    trace.TracerProvider
	Meters     *sdkmetric.MeterProvider
	Histograms histogram.Registry
	Metrics    http.Handler // /metrics
	shutdowns  []func(context.Context) error
}

// Process identifies a process in its telemetry.
type Process struct {
	Service, Version, Revision string // of the binary
	Instance                   string // the address that the process advertises
	Cluster                    string
}

// Propagator returns a propagator for the W3C headers traceparent, tracestate and
// baggage.
func Propagator() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}

// exports reports whether the environment configures the export of a signal (TRACES or
// METRICS).
func exports(signal string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	switch exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); {
	case exporter == "none", exporter == "prometheus": // the latter is always served
		return false
	case exporter != "":
		return true
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// New returns the telemetry of a node. Exporting is optional: what is wrong with its variables is logged, and
// does not keep the node from starting.
func New(ctx context.Context, p Process, log *slog.Logger) (*Providers, error) {
	// Attributes from the environment override the node's own.
	identity, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", p.Service),
			attribute.String("service.version", p.Version),
			attribute.String("service.instance.id", p.Instance),
			attribute.String("roost.cluster.name", p.Cluster)),
		resource.WithFromEnv())
	if err != nil { // the attributes that can be read are used
		log.Warn("resource attributes are ignored in part", "variables", otelVariables("RESOURCE_ATTRIBUTES", "SERVICE_NAME"), "error", err,
			"hint", "write key=value,key=value")
	}
	t := &Providers{Tracers: noop.NewTracerProvider()}
	if exports("TRACES") {
		if provider, err := newTracing(ctx, identity); err != nil {
			notExported(log, "traces", err)
		} else {
			t.Tracers = provider
			t.shutdowns = append(t.shutdowns, provider.Shutdown)
		}
	}
	registry := prometheus.NewRegistry()
	// Every series names the cluster, so that rules and boards keep clusters apart however
	// they are scraped.
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"roost_cluster": p.Cluster}, registry)
	labelled.MustRegister(
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: liveHeap})),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	pulled, err := otelprometheus.New(otelprometheus.WithRegisterer(labelled), otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithProducer(&t.Histograms))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("telemetry: metrics: %w", err), t.Shutdown(ctx))
	}
	options := []sdkmetric.Option{
		sdkmetric.WithResource(identity),
		sdkmetric.WithReader(pulled),
		sdkmetric.WithView(sdkmetric.NewView(
			sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram, Unit: "s"},
			sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: histogram.Seconds}})),
	}
	if exports("METRICS") {
		if pushed, err := t.newPushed(ctx); err != nil {
			notExported(log, "metrics", err)
		} else {
			options = append(options, sdkmetric.WithReader(pushed))
		}
	}
	t.Meters = sdkmetric.NewMeterProvider(options...)
	t.shutdowns = append(t.shutdowns, t.Meters.Shutdown)
	t.Metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
	return t, t.registerProcess(p)
}

// notExported logs why a signal (traces or metrics) is not exported. The errors of exporters do not name variables, so
// those that are set are named.
func notExported(log *slog.Logger, signal string, err error) {
	log.Warn("telemetry is not exported", "signal", signal, "variables", otelVariables(strings.ToUpper(signal)+"_", "EXPORTER_"), "error", err,
		"hint", "correct or unset the variables, and restart the process")
}

// otelVariables returns the names of the set variables that begin with OTEL_ and one of the prefixes.
func otelVariables(prefixes ...string) (names []string) {
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if rest, ok := strings.CutPrefix(name, "OTEL_"); ok && value != "" &&
			slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(rest, p) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// liveHeap matches the size of the heap that the last collection has found in use, which
// reports whether the memory limit is near. All that the process has does not: between two collections
// the heap grows up to the limit.
var liveHeap = regexp.MustCompile(`^/gc/heap/live:bytes$`)

// registerProcess publishes roost.build.info, always 1, for its attributes, and the log lines that were dropped.
func (t *Providers) registerProcess(p Process) error {
	attributes := metric.WithAttributes(
		attribute.String("version", p.Version),
		attribute.String("go", runtime.Version()),
		attribute.String("commit", p.Revision))
	meter := NewInstruments(t.Meters.Meter("github.com/roost-cluster/roost/libs/node"))
	build := meter.Gauge("roost.build.info", "", "The running binary; always 1.")
	dropped := meter.Count("roost.log.dropped", "{line}", "Log lines that were dropped, because the log is read too slowly or not at all.")
	return meter.Observe(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(build, 1, attributes)
		o.ObserveInt64(dropped, stderr.lost())
		return nil
	})
}

// shutdown flushes and ends the exporters.
func (t *Providers) Shutdown(ctx context.Context) error {
	var problems []error
	for _, shutdown := range t.shutdowns {
		problems = append(problems, shutdown(ctx))
	}
	return errors.Join(problems...)
}

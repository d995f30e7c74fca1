package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"os"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// An Exporter makes the exporters of one kind. OTLP exporters read the rest of the standard OTEL_EXPORTER_OTLP_* variables
// themselves.
type Exporter struct {
	Spans   func(context.Context, *resource.Resource) (Tracing, error)
	Metrics func(context.Context, sdkmetric.Producer) (sdkmetric.Reader, error)
}

// Tracing is a provider of tracers that exports their spans.
type Tracing interface {
	trace.TracerProvider
	Shutdown(context.Context) error
}

// Batch returns the Tracing of a process that sends batches to an exporter, unless that has an error. Only packages of
// exporters call it: a program without them does not link the SDK of traces.
func Batch(process *resource.Resource, exporter sdktrace.SpanExporter, err error) (Tracing, error) {
	if err != nil {
		return nil, err
	}
	return sdktrace.NewTracerProvider(sdktrace.WithResource(process), sdktrace.WithBatcher(exporter)), nil
}

// Push returns a reader that pushes metrics and what a producer adds to an exporter, unless that has an error. It reads
// OTEL_METRIC_EXPORT_INTERVAL and OTEL_METRIC_EXPORT_TIMEOUT itself. As [Batch], it is for packages of exporters.
func Push(more sdkmetric.Producer, exporter sdkmetric.Exporter, err error) (sdkmetric.Reader, error) {
	if err != nil {
		return nil, err
	}
	return sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(more)), nil
}

// Exporters have many dependencies, so a program links only those that it imports.
var (
	linked = map[string]Exporter{}
	// packages has the package that links each exporter.
	packages = map[string]string{"console": "console", "http/protobuf": "otlphttp", "grpc": "otlpgrpc"}
)

// Register adds an exporter: console, or OTLP by one of its protocols, as OTEL_EXPORTER_OTLP_PROTOCOL names them. Packages
// call it in their init function, see package otlphttp.
func Register(name string, e Exporter) { linked[name] = e }

// exporterOf returns the exporter that the environment configures for a signal, TRACES or METRICS.
func exporterOf(signal string) (Exporter, error) {
	name := cmp.Or(os.Getenv("OTEL_"+signal+"_EXPORTER"), "otlp")
	switch name {
	case "console":
	case "otlp":
		name = cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
		if packages[name] == "" || name == "console" {
			return Exporter{}, fmt.Errorf("there is no protocol %q; use http/protobuf or grpc", name)
		}
	default:
		return Exporter{}, fmt.Errorf("there is no exporter %q; use otlp, console or none", name)
	}
	e, known := linked[name]
	if !known {
		return Exporter{}, fmt.Errorf("this program does not link the exporter for %s; import it in its main package: import _ %q",
			name, "github.com/roost-cluster/roost/libs/node/telemetry/"+packages[name])
	}
	return e, nil
}

func newTracing(ctx context.Context, process *resource.Resource) (Tracing, error) {
	e, err := exporterOf("TRACES")
	if err != nil {
		return nil, err
	}
	return e.Spans(ctx, process)
}

// newPushed returns the reader that pushes metrics.
func (t *Providers) newPushed(ctx context.Context) (sdkmetric.Reader, error) {
	e, err := exporterOf("METRICS")
	if err != nil {
		return nil, err
	}
	return e.Metrics(ctx, &t.Histograms)
}

package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// An Exporter makes the exporters of OTLP by one protocol. They read the rest of the standard OTEL_EXPORTER_OTLP_* variables
// themselves.
type Exporter struct {
	Spans   func(context.Context) (sdktrace.SpanExporter, error)
	Metrics func(context.Context) (sdkmetric.Exporter, error)
}

// protocols has the linked protocols, by their names in OTEL_EXPORTER_OTLP_PROTOCOL.
var protocols = map[string]Exporter{"http/protobuf": {
	Spans:   func(ctx context.Context) (sdktrace.SpanExporter, error) { return otlptracehttp.New(ctx) },
	Metrics: func(ctx context.Context) (sdkmetric.Exporter, error) { return otlpmetrichttp.New(ctx) },
}}

// RegisterProtocol adds a protocol of OTLP. Packages call it in their init function, see package otlpgrpc.
func RegisterProtocol(name string, e Exporter) { protocols[name] = e }

// exporterOf returns the exporters that the environment configures for a signal, TRACES or METRICS.
func exporterOf(signal string) (Exporter, error) {
	switch name := cmp.Or(os.Getenv("OTEL_"+signal+"_EXPORTER"), "otlp"); name {
	case "otlp":
	case "console":
		return Exporter{
			Spans:   func(context.Context) (sdktrace.SpanExporter, error) { return stdouttrace.New() },
			Metrics: func(context.Context) (sdkmetric.Exporter, error) { return stdoutmetric.New() },
		}, nil
	default:
		return Exporter{}, fmt.Errorf("there is no exporter %q; use otlp, console or none", name)
	}
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	e, linked := protocols[protocol]
	switch {
	case linked:
		return e, nil
	case protocol == "grpc":
		return e, fmt.Errorf("this program does not link OTLP over gRPC; use http/protobuf, or import it in its main package: import _ %q", "github.com/roost-cluster/roost/libs/node/telemetry/otlpgrpc")
	}
	return e, fmt.Errorf("there is no protocol %q; use http/protobuf or grpc", protocol)
}

func newSpanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	e, err := exporterOf("TRACES")
	if err != nil {
		return nil, err
	}
	return e.Spans(ctx)
}

// newPushed returns the reader that pushes metrics. It reads OTEL_METRIC_EXPORT_INTERVAL and OTEL_METRIC_EXPORT_TIMEOUT itself.
func (t *Providers) newPushed(ctx context.Context) (sdkmetric.Reader, error) {
	e, err := exporterOf("METRICS")
	if err != nil {
		return nil, err
	}
	exporter, err := e.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	return sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(&t.Histograms)), nil
}

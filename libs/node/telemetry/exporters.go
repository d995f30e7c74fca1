package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"os"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// An Exporter makes the exporters of one kind. OTLP exporters read the rest of the standard OTEL_EXPORTER_OTLP_* variables
// themselves.
type Exporter struct {
	Spans   func(context.Context) (sdktrace.SpanExporter, error)
	Metrics func(context.Context) (sdkmetric.Exporter, error)
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

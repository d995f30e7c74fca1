// Package otlpgrpc links OTLP over gRPC into a program that imports it:
//
//	import _ "github.com/roost-cluster/roost/libs/node/telemetry/otlpgrpc"
package otlpgrpc

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/roost-cluster/roost/libs/node/telemetry"
)

func init() {
	telemetry.Register("grpc", telemetry.Exporter{
		Spans:   func(ctx context.Context) (sdktrace.SpanExporter, error) { return otlptracegrpc.New(ctx) },
		Metrics: func(ctx context.Context) (sdkmetric.Exporter, error) { return otlpmetricgrpc.New(ctx) },
	})
}

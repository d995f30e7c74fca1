// Package otlpgrpc links OTLP over gRPC into a program that imports it:
//
//	import _ "github.com/roost-cluster/roost/libs/node/telemetry/otlpgrpc"
package otlpgrpc

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/roost-cluster/roost/libs/node/telemetry"
)

func init() {
	telemetry.Register("grpc", telemetry.Exporter{
		Spans: func(ctx context.Context, process *resource.Resource) (telemetry.Tracing, error) {
			exporter, err := otlptracegrpc.New(ctx)
			return telemetry.Batch(process, exporter, err)
		},
		Metrics: func(ctx context.Context, more sdkmetric.Producer) (sdkmetric.Reader, error) {
			exporter, err := otlpmetricgrpc.New(ctx)
			return telemetry.Push(more, exporter, err)
		},
	})
}

// Package otlphttp links OTLP over HTTP into a program that imports it:
//
//	import _ "github.com/roost-cluster/roost/libs/node/telemetry/otlphttp"
package otlphttp

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/roost-cluster/roost/libs/node/telemetry"
)

func init() {
	telemetry.Register("http/protobuf", telemetry.Exporter{
		Spans: func(ctx context.Context, process *resource.Resource) (telemetry.Tracing, error) {
			exporter, err := otlptracehttp.New(ctx)
			return telemetry.Batch(process, exporter, err)
		},
		Metrics: func(ctx context.Context, more sdkmetric.Producer) (sdkmetric.Reader, error) {
			exporter, err := otlpmetrichttp.New(ctx)
			return telemetry.Push(more, exporter, err)
		},
	})
}

// Package console links the exporter named console, which writes telemetry to the standard output, into a program that
// imports it:
//
//	import _ "github.com/roost-cluster/roost/libs/node/telemetry/console"
package console

import (
	"context"

	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/roost-cluster/roost/libs/node/telemetry"
)

func init() {
	telemetry.Register("console", telemetry.Exporter{
		Spans: func(_ context.Context, process *resource.Resource) (telemetry.Tracing, error) {
			exporter, err := stdouttrace.New()
			return telemetry.Batch(process, exporter, err)
		},
		Metrics: func(_ context.Context, more sdkmetric.Producer) (sdkmetric.Reader, error) {
			exporter, err := stdoutmetric.New()
			return telemetry.Push(more, exporter, err)
		},
	})
}

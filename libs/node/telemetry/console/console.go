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
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/roost-cluster/roost/libs/node/telemetry"
)

func init() {
	telemetry.Register("console", telemetry.Exporter{
		Spans:   func(context.Context) (sdktrace.SpanExporter, error) { return stdouttrace.New() },
		Metrics: func(context.Context) (sdkmetric.Exporter, error) { return stdoutmetric.New() },
	})
}

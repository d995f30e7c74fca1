// Package telemetry has the providers of OpenTelemetry for traces and metrics, which
// /metrics shows and the variables OTEL_* export, instruments, and the log, which a slow reader does not stop. Exporters by
// OTLP are linked by a program that imports them, such as package otlpgrpc.
//
// # What this does not do
//
// It measures only the process itself: services make their own instruments. Measurements that are too frequent for a
// meter are in package histogram.
package telemetry

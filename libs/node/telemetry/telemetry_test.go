package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"testing"
)

// TestWrongTelemetryVariables: what is wrong with the export of telemetry does not keep a process from starting; a
// warning names the variable.
func TestWrongTelemetryVariables(t *testing.T) {
	const own = "github.com/roost-cluster/roost/libs/node/telemetry/"
	for _, test := range []struct{ name, value, also, says string }{
		{"OTEL_RESOURCE_ATTRIBUTES", "team=shop,", "", ""},
		{"OTEL_TRACES_EXPORTER", "zipkin", "", "there is no exporter"},
		{"OTEL_METRICS_EXPORTER", "carbon", "", "there is no exporter"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "OTEL_EXPORTER_OTLP_ENDPOINT", "there is no protocol"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "console", "OTEL_EXPORTER_OTLP_ENDPOINT", "there is no protocol"},
		{"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json", "OTEL_EXPORTER_OTLP_ENDPOINT", "there is no protocol"},
		// None of them is linked here.
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT", own + "otlpgrpc"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "", "OTEL_EXPORTER_OTLP_ENDPOINT", own + "otlphttp"},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT", own + "otlphttp"},
		{"OTEL_TRACES_EXPORTER", "console", "", own + "console"},
	} {
		t.Run(test.name+"="+test.value, func(t *testing.T) {
			t.Setenv(test.name, test.value)
			if test.also != "" {
				t.Setenv(test.also, "http://127.0.0.1:1")
			}
			var text strings.Builder
			got, err := New(t.Context(), Process{Service: "roost-region", Instance: "a:1", Cluster: "dev"}, slog.New(slog.NewTextHandler(&text, nil)))
			if err != nil {
				t.Fatal(err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_ = got.Shutdown(ended) // nothing listens
			named := test.name
			if test.value == "" {
				named = test.also
			}
			if !strings.Contains(text.String(), named) || !strings.Contains(text.String(), test.says) || !strings.Contains(text.String(), "level=WARN") {
				t.Errorf("the warning is %q", text.String())
			}
		})
	}
}

func TestExports(t *testing.T) {
	for _, test := range []struct {
		env             map[string]string
		traces, metrics bool
	}{
		{nil, false, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, true, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, true, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_METRICS_EXPORTER": "none"}, true, false},
		{map[string]string{"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "prometheus"}, true, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, false, false},
	} {
		for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
			"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_SDK_DISABLED"} {
			t.Setenv(name, test.env[name])
		}
		if traces, metrics := exports("TRACES"), exports("METRICS"); traces != test.traces || metrics != test.metrics {
			t.Errorf("%v: traces %v, metrics %v", test.env, traces, metrics)
		}
	}
}

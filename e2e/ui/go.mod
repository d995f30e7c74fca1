module github.com/roost-cluster/roost/e2e/ui

go 1.26.7

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/roost-cluster/roost/cli v0.0.0
	github.com/roost-cluster/roost/libs v0.0.0
	github.com/roost-cluster/roost/proto v0.0.0
	github.com/roost-cluster/roost/services/coordinator v0.0.0
)

require (
	github.com/KimMachineGun/automemlimit v1.0.1 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/pbnjay/memory v0.0.0-20210728143218-7b4eea64cf58 // indirect
	github.com/prometheus/client_golang v1.24.1 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/otlptranslator v1.0.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/roost-cluster/roost/libs/node v0.0.0 // indirect
	github.com/twitchtv/twirp v8.1.3+incompatible // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/exporters/prometheus v0.69.0 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.opentelemetry.io/otel/sdk v1.47.0 // indirect
	go.opentelemetry.io/otel/sdk/metric v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/roost-cluster/roost/cli => ../../cli
	github.com/roost-cluster/roost/e2e => ../
	github.com/roost-cluster/roost/libs => ../../libs
	github.com/roost-cluster/roost/libs/backends => ../../libs/backends
	github.com/roost-cluster/roost/libs/discovery => ../../libs/discovery
	github.com/roost-cluster/roost/libs/journal/postgres => ../../libs/journal/postgres
	github.com/roost-cluster/roost/libs/journal/sqlite => ../../libs/journal/sqlite
	github.com/roost-cluster/roost/libs/lease => ../../libs/lease
	github.com/roost-cluster/roost/libs/node => ../../libs/node
	github.com/roost-cluster/roost/proto => ../../proto
	github.com/roost-cluster/roost/sdk => ../../sdk
	github.com/roost-cluster/roost/services/coordinator => ../../services/coordinator
	github.com/roost-cluster/roost/services/gateway => ../../services/gateway
	github.com/roost-cluster/roost/services/region => ../../services/region
)

module github.com/roost-cluster/roost/e2e

go 1.26.0

require (
	github.com/roost-cluster/roost/cli v0.0.0
	github.com/roost-cluster/roost/libs v0.0.0
	github.com/roost-cluster/roost/libs/journal v0.0.0
	github.com/roost-cluster/roost/libs/lease v0.0.0
	github.com/roost-cluster/roost/services/coordinator v0.0.0
	github.com/roost-cluster/roost/services/gateway v0.0.0
	github.com/roost-cluster/roost/services/region v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.opentelemetry.io/proto/otlp v1.11.1 // indirect
)

replace (
	github.com/roost-cluster/roost/cli => ../cli
	github.com/roost-cluster/roost/libs => ../libs
	github.com/roost-cluster/roost/libs/discovery => ../libs/discovery
	github.com/roost-cluster/roost/libs/journal => ../libs/journal
	github.com/roost-cluster/roost/libs/lease => ../libs/lease
	github.com/roost-cluster/roost/libs/node => ../libs/node
	github.com/roost-cluster/roost/proto => ../proto
	github.com/roost-cluster/roost/sdk => ../sdk
	github.com/roost-cluster/roost/services/coordinator => ../services/coordinator
	github.com/roost-cluster/roost/services/gateway => ../services/gateway
	github.com/roost-cluster/roost/services/region => ../services/region
)

// Not available everywhere; only tests of a dependency want it.
exclude github.com/google/pprof v0.0.0-20261016150608-1facf8f91b50

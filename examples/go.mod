module github.com/roost-cluster/roost/examples

go 1.26.0

require (
	github.com/roost-cluster/roost/libs v0.0.0
	github.com/roost-cluster/roost/libs/journal v0.0.0
	github.com/roost-cluster/roost/libs/discovery v0.0.0
	github.com/roost-cluster/roost/libs/node v0.0.0
	github.com/roost-cluster/roost/proto v0.0.0
	github.com/roost-cluster/roost/sdk v0.0.0
	github.com/roost-cluster/roost/services/region v0.0.0
)

replace (
	github.com/roost-cluster/roost/libs => ../libs
	github.com/roost-cluster/roost/libs/journal => ../libs/journal
	github.com/roost-cluster/roost/libs/discovery => ../libs/discovery
	github.com/roost-cluster/roost/libs/node => ../libs/node
	github.com/roost-cluster/roost/proto => ../proto
	github.com/roost-cluster/roost/sdk => ../sdk
	github.com/roost-cluster/roost/services/region => ../services/region
)

// Not available everywhere; only tests of a dependency want it.
exclude github.com/google/pprof v0.0.0-20261016150608-1facf8f91b50

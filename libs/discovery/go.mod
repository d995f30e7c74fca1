module github.com/roost-cluster/roost/libs/discovery

go 1.26.0

require github.com/roost-cluster/roost/libs v0.0.0

require github.com/cespare/xxhash/v2 v2.3.0 // indirect

replace (
	github.com/roost-cluster/roost/libs => ../
	github.com/roost-cluster/roost/proto => ../../proto
)

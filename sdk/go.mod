module github.com/roost-cluster/roost/sdk

go 1.26.0

require (
	github.com/google/uuid v1.6.0
	github.com/roost-cluster/roost/libs v0.0.0
	google.golang.org/protobuf v1.36.12
)

require github.com/cespare/xxhash/v2 v2.3.0 // indirect

replace (
	github.com/roost-cluster/roost/libs => ../libs
	github.com/roost-cluster/roost/proto => ../proto
)

module github.com/roost-cluster/roost/sdk

go 1.26.0

require (
	github.com/roost-cluster/roost/libs v0.0.0
	github.com/roost-cluster/roost/proto v0.0.0
)

require google.golang.org/protobuf v1.36.12 // indirect

replace (
	github.com/roost-cluster/roost/libs => ../libs
	github.com/roost-cluster/roost/proto => ../proto
)

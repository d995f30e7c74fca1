module github.com/roost-cluster/roost/libs/lease

go 1.26.0

require (
	github.com/roost-cluster/roost/libs v0.0.0
	github.com/roost-cluster/roost/proto v0.0.0
)

replace (
	github.com/roost-cluster/roost/libs => ../
	github.com/roost-cluster/roost/proto => ../../proto
)

module github.com/roost-cluster/roost/libs

go 1.26.0

require github.com/roost-cluster/roost/proto v0.0.0

require github.com/cespare/xxhash/v2 v2.3.0 // indirect

replace github.com/roost-cluster/roost/proto => ../proto

module github.com/roost-cluster/roost/proto

go 1.26.0


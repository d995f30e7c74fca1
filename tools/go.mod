module github.com/roost-cluster/roost/tools

go 1.26.0


module github.com/roost-cluster/roost/libs/node

go 1.26.0


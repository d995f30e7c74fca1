// A module of its own, so that the programs of the peers (e2e/peers) share the load with Roost and not its dependencies.
module github.com/roost-cluster/roost/e2e/bench/measure

go 1.26.7

require github.com/HdrHistogram/hdrhistogram-go v1.4.0

// Package bench measures the layers of Roost, and baselines in the same run.
// Most subjects are real processes that speak over loopback: the region and the gateway as
// they are built, and a process of baselines. One subject runs inside this process: a
// region without its network (server.Runner). Command cmd/bench prints the report and
// writes it as JSON, as a chart and into the documentation.
//
//	make bench            # the whole table
//	make bench RUN=link   # suites by name
//	make profile          # processor and allocation profiles of each
//
// # What this does not do
//
// It asserts nothing about time: a slow machine is not a failure. Figures of different
// runs or machines must not be compared; ratios to the baselines may be, with care.
package bench

// Package vectors compares the cores that stand for sharding and the singleton
// of Apache Pekko with the published cases of these. A case runs, or its row in
// testdata/deviations.md says why it does not or comes out otherwise.
//
// # What this does not do
//
// The cases of allocation, membership, downing, bootstrap, failure detectors and
// clocks run in the packages that they are about.
package vectors

// Package measure runs loads and says how fast they went. What is compared runs
// in turns, a few short rounds each, so that whatever else the machine does
// hits all of them; figures are medians over the rounds, and a ratio is the
// median of the ratios of each round.
//
// # What this does not do
//
// It knows nothing of what it measures, and it judges nothing: whether a figure
// is good is for package report and its reader.
package measure

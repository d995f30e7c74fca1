// Package measure runs loads and measures their rates. Subjects of a comparison run in
// turns, a few short rounds each, so that whatever else the machine does affects all of
// them. Figures are medians over the rounds, and a ratio is the
// median of the ratios of each round.
//
// # What this does not do
//
// It knows nothing of what it measures, and judges nothing: package report compares
// figures with targets.
package measure

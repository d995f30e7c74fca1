// Package measure runs loads and measures their rates. The subjects of a comparison run in
// turn, each for a few short rounds, so that whatever else the machine does affects all of
// them. A figure is the median over the rounds. A ratio is computed for each round, and the
// median of these is reported.
//
// # What this does not do
//
// It knows nothing about its subjects, and judges nothing: package report compares
// figures with targets.
package measure

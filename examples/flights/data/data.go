// Package data has the flights of the demonstration: the first quarter of 2001, from the on-time records of
// the US Bureau of Transportation Statistics, by way of vega-datasets (BSD-3-Clause). The README in its
// directory names the columns.
//
// # What this does not do
//
// It does not read the rows; see the demonstration's own program.
package data

import _ "embed" // for the file

// Name is the name of the file.
const Name = "flights-2001-q1.csv.gz"

// File is the file, as it is stored: CSV, compressed with gzip.
//
//go:embed flights-2001-q1.csv.gz
var File []byte

package main

import "testing"

// TestQuoted: names that look the same are shown differently, and no name breaks out of its cell.
func TestQuoted(t *testing.T) {
	for name, want := range map[string]string{
		"Cart/anna":          "Cart/anna",
		"Cart/caf\u00e9":     "Cart/caf\u00e9",
		"Cart/cafe\u0301":    `"Cart/cafe\u0301"`,
		"Cart/\u212b":        `"Cart/\u212b"`, // the sign of the unit, which is a letter in normal form C
		"Cart/a\nb":          `"Cart/a\nb"`,
		"Cart/a  b":          `"Cart/a  b"`,
		`"Cart/a"`:           `"\"Cart/a\""`,
		"Cart/\U0001f34c 東京": "Cart/\U0001f34c 東京",
	} {
		if got := named(name); got != want {
			t.Errorf("%q is shown as %s, want %s", name, got, want)
		}
	}
}

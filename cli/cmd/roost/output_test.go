package main

import (
	"bytes"
	"strings"
	"testing"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

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

// TestStrangersTexts: what a region, an entity or another operator has written cannot break out of its cell or line: the
// reason of a quarantine has the text of a panic.
func TestStrangersTexts(t *testing.T) {
	const evil = "a\u009b2J\u202eb\nc"
	for what, print := range map[string]func(*app) error{
		"quarantines": func(a *app) error {
			return a.printQuarantines(&adminv1.QuarantinesResponse{Entities: []*adminv1.QuarantinedEntity{{Type: "Cart", Id: "a", Reason: evil, By: evil, Command: evil, Region: evil}}})
		},
		"why": func(a *app) error {
			return a.printLines(describeWhy(&adminv1.WhyResponse{
				Shard: &adminv1.Shard{Type: "Cart"}, Pin: &adminv1.PinnedShard{Region: "r1", By: evil, Reason: evil},
				Decisions: []*adminv1.Decision{{Kind: "request", Request: "quarantine " + evil, By: evil, Reason: evil}},
			}))
		},
	} {
		var out bytes.Buffer
		if err := print(&app{out: &out, output: "table"}); err != nil || out.Len() == 0 || strings.ContainsAny(out.String(), "\u009b\u202e") || strings.Contains(out.String(), "\nc") {
			t.Errorf("%s: %q, %v", what, out.String(), err)
		}
	}
}

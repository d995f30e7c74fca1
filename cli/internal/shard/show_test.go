package shard

import (
	"strings"
	"testing"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// TestStrangersReasons: what another operator has written cannot break out of its line.
func TestStrangersReasons(t *testing.T) {
	const evil = "a\u009b2J\u202eb\nc"
	text := strings.Join(describeWhy(&adminv1.WhyResponse{
		Shard: &adminv1.Shard{Type: "Cart"}, Pin: &adminv1.PinnedShard{Region: "r1", By: evil, Reason: evil},
		Decisions: []*adminv1.Decision{{Kind: "request", Request: "quarantine " + evil, By: evil, Reason: evil}},
	}, evil), "\n")
	if text == "" || strings.ContainsAny(text, "\u009b\u202e") || strings.Contains(text, "\nc") {
		t.Errorf("%q", text)
	}
}

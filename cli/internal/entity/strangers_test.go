package entity

import (
	"bytes"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/cli/internal/app"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// TestStrangersTexts: what a region, an entity or another operator has written cannot break out of its cell: the reason of
// a quarantine has the text of a panic.
func TestStrangersTexts(t *testing.T) {
	const evil = "a\u009b2J\u202eb\nc"
	var out bytes.Buffer
	a := &group{&app.App{Out: &out, Output: "table"}}
	err := a.printQuarantines(&adminv1.QuarantinesResponse{Entities: []*adminv1.QuarantinedEntity{{Type: "Cart", Id: "a", Reason: evil, By: evil, Command: evil, Region: evil}}})
	if err != nil || out.Len() == 0 || strings.ContainsAny(out.String(), "\u009b\u202e") || strings.Contains(out.String(), "\nc") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

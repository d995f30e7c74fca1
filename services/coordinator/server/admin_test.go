package server

import (
	"slices"
	"testing"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// TestReadsAndWrites: of each method it is decided whether it changes something. What does needs a management
// token, and is in the audit.
func TestReadsAndWrites(t *testing.T) {
	writes := []string{"Drain", "Cordon", "Freeze", "Pin", "Move", "Look", "SetTarget", "Quarantine", "Command", "RetrySends"}
	methods := adminv1.File_roost_admin_v1_admin_proto.Services().ByName("Admin").Methods()
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		if slices.Contains(adminReads, name) == slices.Contains(writes, name) {
			t.Errorf("%s is in neither or in both of the lists: add it to adminReads if it changes nothing, otherwise here", name)
		}
	}
	if len(adminReads)+len(writes) != methods.Len() {
		t.Error("a list names a method that is not there")
	}
}

package main

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoregistry"
)

// TestAdminAPIIsNotLinked checks that this program does not link the admin API, which is large and served by coordinators
// only. If it fails, go list -deps lists the packages that the program links.
func TestAdminAPIIsNotLinked(t *testing.T) {
	if _, err := protoregistry.GlobalFiles.FindFileByPath("roost/admin/v1/admin.proto"); err == nil {
		t.Error("it links proto/roost/admin/v1")
	}
	if _, err := protoregistry.GlobalFiles.FindFileByPath("roost/admin/v1/diagnosis/diagnosis.proto"); err != nil {
		t.Errorf("it does not link the diagnosis, or that is somewhere else: %v", err)
	}
}

package new

import (
	"os"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/node"
)

func TestOwnVersion(t *testing.T) {
	for _, tc := range []struct {
		v  node.Version
		ok bool
	}{
		{node.Version{Version: "v0.1.0"}, true},
		{node.Version{Version: "v0.1.1-0.20260131120000-0123456789ab"}, true}, // installed from a commit
		{node.Version{Version: "v0.1.0", Revision: "0123"}, false},            // built in a checkout
		{node.Version{Version: "v0.1.0+dirty"}, false},
		{node.Version{Version: "devel"}, false},
	} {
		if got, err := ownVersion(tc.v); (err == nil) != tc.ok || tc.ok && got != tc.v.Version {
			t.Errorf("%+v: %q, %v", tc.v, got, err)
		}
	}
}

// TestNewRegionNeedsThisGo: the written files need the version of Go that the region needs.
func TestNewRegionNeedsThisGo(t *testing.T) {
	text, err := os.ReadFile("../../../services/region/go.mod")
	if err != nil || !strings.Contains(string(text), "\ngo "+goVersion+"\n") {
		t.Errorf("goVersion is %s, and services/region/go.mod says:\n%s%v", goVersion, text, err)
	}
}

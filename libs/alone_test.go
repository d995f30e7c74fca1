package libs_test

import (
	"go/build"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

// alone are the libraries of the membership that are of use without the rest of
// Roost, and all that comes with them besides the standard library.
var alone = map[string][]string{
	"vclock":     {},
	"phi":        {},
	"gossip":     {"github.com/cespare/xxhash/v2", "libs/pace", "libs/phi", "libs/setting", "libs/sharding", "libs/vclock"},
	"splitbrain": {"github.com/cespare/xxhash/v2", "libs/gossip", "libs/pace", "libs/phi", "libs/setting", "libs/sharding", "libs/vclock"},
	"gossip/agent": {
		"github.com/cespare/xxhash/v2", "github.com/twitchtv/twirp", "google.golang.org/protobuf",
		"libs/bounded", "libs/errornumber", "libs/foreign", "libs/gossip", "libs/loop", "libs/pace", "libs/phi", "libs/setting", "libs/sharding", "libs/vclock",
		"proto/roost/admin/v1/membership", "proto/roost/cluster/v1",
	},
}

// TestAlone: these libraries depend on no service, no store and no client of a store.
func TestAlone(t *testing.T) {
	for dir, want := range alone { // order-free: errors
		found := map[string]bool{}
		gather(t, "./"+dir, found)
		var got []string
		for path := range found { // order-free: sorted below
			got = append(got, path)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s comes with\n%s\nwant\n%s", dir, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// gather lists what a package of this module imports, and what that imports in
// turn. Of others' modules the import path up to the module's name will do.
func gather(t *testing.T, dir string, found map[string]bool) {
	t.Helper()
	pkg, err := build.ImportDir(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range pkg.Imports {
		first, _, _ := strings.Cut(path, "/")
		ours, isOurs := strings.CutPrefix(path, archtest.Prefix)
		switch {
		case !strings.Contains(first, "."):
		case !isOurs:
			for _, module := range []string{"github.com/twitchtv/twirp", "google.golang.org/protobuf"} {
				if path == module || strings.HasPrefix(path, module+"/") {
					path = module
				}
			}
			found[path] = true
		case !found[ours]:
			found[ours] = true
			if below, ok := strings.CutPrefix(ours, "libs/"); ok {
				gather(t, "./"+below, found)
			}
		}
	}
}

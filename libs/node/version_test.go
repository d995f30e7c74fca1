package node

import (
	"runtime/debug"
	"testing"
)

// TestRelease: a region's main module may be its author's, whose version is not Roost's.
func TestRelease(t *testing.T) {
	ours, theirs := debug.Module{Path: modules + "services/region"}, debug.Module{Path: "example.com/shop", Version: "v7.0.0"}
	libs := func(version string, replace *debug.Module) []*debug.Module {
		return []*debug.Module{{Path: "example.com/other", Version: "v9.0.0"}, {Path: modules + "libs", Version: version, Replace: replace}}
	}
	for name, c := range map[string]struct {
		info debug.BuildInfo
		v    Version
		want string
	}{
		"a release of Roost":       {debug.BuildInfo{Main: ours}, Version{Version: "v0.2.0"}, "v0.2.0"},
		"a checkout of Roost":      {debug.BuildInfo{Main: ours}, Version{Version: "devel", Revision: "0123456789abcdef"}, "devel 0123456789ab"},
		"Roost, nothing is known":  {debug.BuildInfo{Main: ours}, Version{Version: "devel"}, ""},
		"a region with a release":  {debug.BuildInfo{Main: theirs, Deps: libs("v0.2.0", nil)}, Version{Version: "v7.0.0", Revision: "fedcba9876543210"}, "v0.2.0"},
		"a region with a checkout": {debug.BuildInfo{Main: theirs, Deps: libs("v0.0.0", &debug.Module{Path: "../roost/libs"})}, Version{Version: "v7.0.0"}, ""},
	} {
		if got := release(&c.info, c.v); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

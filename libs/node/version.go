package node

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Version holds the known facts about the running binary.
type Version struct {
	Service  string `json:"service"`
	Version  string `json:"version"`            // of the main module, or "devel"
	Roost    string `json:"roost,omitempty"`    // release of Roost, if it is known
	Revision string `json:"revision,omitempty"` // commit
	Modified bool   `json:"modified,omitempty"` // built from a modified checkout
	Time     string `json:"time,omitempty"`     // of the commit
	Go       string `json:"go"`
}

// BuildVersion returns the version of the running binary of a service.
func BuildVersion(service string) Version {
	v := Version{Service: service, Version: "devel", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Revision = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		case "vcs.time":
			v.Time = setting.Value
		}
	}
	v.Roost = release(info, v)
	return v
}

// modules is how the paths of Roost's modules begin.
const modules = "github.com/roost-cluster/roost/"

// release returns a program's release of Roost. The main module of a region with entities of their
// author is another one: then it is the release of the module that it requires, and unknown if that
// is a checkout.
func release(info *debug.BuildInfo, v Version) string {
	if strings.HasPrefix(info.Main.Path, modules) {
		if v.Revision == "" {
			return strings.TrimPrefix(v.Version, "devel")
		}
		return v.Version + " " + v.Revision[:min(len(v.Revision), 12)]
	}
	for _, dep := range info.Deps {
		if dep.Path == modules+"libs" && dep.Replace == nil {
			return dep.Version
		}
	}
	return ""
}

// String returns the line that --version prints.
func (v Version) String() string {
	line := fmt.Sprintf("%s %s %s", v.Service, v.Version, v.Go)
	if v.Revision != "" {
		line += " " + v.Revision
	}
	if v.Modified {
		line += " (modified)"
	}
	return line
}

package node

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is what is known about the running binary.
type Version struct {
	Service  string `json:"service"`
	Version  string `json:"version"`            // of the main module, or "devel"
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
	return v
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

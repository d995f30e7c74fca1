package node_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	archtest.Check(t, archtest.Rules{
		May: map[string][]string{
			".":                     {"libs/atomicfile", "libs/backendurl", "libs/bounded", "libs/control", "libs/errornumber", "libs/gossip", "libs/node/config", "libs/node/rpc", "libs/node/security", "libs/node/telemetry", "libs/node/telemetry/histogram", "libs/conn", "libs/setting", "libs/sharding", "proto/roost/inspection/v1"},
			"security/auth":         {"libs/node/security", "libs/node/security/watchfile", "libs/setting", "libs/sharding"},
			"security/watchfile":    {},
			"telemetry/histogram":   {},
			"telemetry/console":     {"libs/node/telemetry"},
			"telemetry/otlpgrpc":    {"libs/node/telemetry"},
			"telemetry/otlphttp":    {"libs/node/telemetry"},
			"telemetry/slowest":     {"libs/sharding", "proto/..."},
			"member":                {"libs/bootstrap", "libs/control", "libs/discovery", "libs/discovery/...", "libs/gossip/...", "libs/node", "libs/node/rpc", "libs/node/telemetry", "libs/setting", "libs/sharding", "libs/splitbrain"},
			"progress":              {},
			"config":                {"libs/backendurl", "libs/node/security", "libs/setting", "libs/sharding"},
			"security":              {"libs/bounded", "libs/control", "libs/errornumber", "libs/node/security/watchfile", "libs/node/telemetry", "libs/setting", "libs/sharding"},
			"security/securitytest": {"libs/node/security"},
			"telemetry":             {"libs/backendurl", "libs/foreign", "libs/node/telemetry/histogram"},
			"rpc":                   {"libs/bounded", "libs/conn", "libs/control", "libs/control/wire", "libs/node/config", "libs/node/security", "libs/node/telemetry", "libs/sharding", "proto/..."},
		},
		Never: []string{"services/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
	})
}

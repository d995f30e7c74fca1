package member

import (
	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/discovery/joiner"
	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/agent"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/splitbrain"
)

// Settings are the keys that every member has in its configuration. A service embeds
// them in its own.
type Settings struct {
	agent.Joining
	Discovery discovery.At `key:"discovery"`
	joiner.Settings
	Tuning gossip.Tuning `key:"gossip"`
	// Downing is the same in all services: the coordinators see the lease.
	Downing splitbrain.Config `key:"gossip"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{
		Joining:   agent.DefaultJoining(),
		Discovery: discovery.DefaultAt(),
		Settings:  joiner.DefaultSettings(),
		Tuning:    gossip.DefaultTuning(),
		Downing:   splitbrain.LeaseConfig("coordinator"),
	}
}

// Validate returns an error that names every key with an unusable value, and the fix.
func (s *Settings) Validate() error { return setting.Ranges(s) }

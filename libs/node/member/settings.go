package member

import (
	"errors"

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
	FastWatch bool   `key:"gossip.fast" help:"true: this node sends heartbeats every 200 ms and suspects a silent member after about 800 ms; false: every 1 s and after about 3 s" expert:"true"`
	Detector  string `key:"gossip.detector" help:"how this node suspects a silent member. phi: judges the silence by how regular the member's heartbeats were. cloud: like phi, but with more patience, for machines that share hosts. deadline: suspects after a fixed time" expert:"true"`
	// Downing is the same in all services: the coordinators see the lease.
	Downing splitbrain.Config `key:"gossip"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{
		Joining:   agent.DefaultJoining(),
		Discovery: discovery.DefaultAt(),
		Settings:  joiner.DefaultSettings(),
		FastWatch: true,
		Detector:  "phi",
		Downing:   splitbrain.LeaseConfig("coordinator"),
	}
}

// Validate returns an error that names every key with an unusable value, and the fix.
func (s *Settings) Validate() error {
	errs := []error{setting.Ranges(s)}
	if _, err := gossip.ProfileOf(s.FastWatch, s.Detector); err != nil {
		errs = append(errs, setting.Errorf("gossip.detector", "has an unusable value: %w", err))
	}
	return errors.Join(errs...)
}

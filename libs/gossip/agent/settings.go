package agent

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Joining are the settings of a service about joining and coming up, as they
// are called in its configuration.
type Joining struct {
	Zone       string `key:"node.zone" help:"zone in which this node runs, such as a data center or an availability zone. Placement spreads shards over zones, and operators see the zone"`
	MinMembers int    `key:"gossip.min_members" range:"1.." unit:"members" help:"number of members that must have joined before the first member comes up. Must be the same on all nodes"`
	// MinOfRole are numbers of members by role.
	MinOfRole      map[string]string `key:"gossip.min_of_role" unit:"role=members list" help:"by role, the number of members that must have joined before the first member comes up, such as coordinator=2,region=3. Must be the same on all nodes" expert:"true"`
	WeaklyUpAfter  time.Duration     `key:"gossip.weakly_up_after" range:"0.." help:"while a member is unreachable, a joining member becomes weakly up after this time. A weakly up member hosts nothing. 0: joining members never become weakly up" expert:"true"`
	GiveUp         time.Duration     `key:"gossip.join_give_up" range:"0.." help:"if no cluster has admitted this node within this time, the process exits. 0: the process keeps trying" expert:"true"`
	RetryRefused   bool              `key:"gossip.retry_refused" help:"true: after a final refusal, such as one because of different settings, this node keeps asking to join; false: the process exits" expert:"true"`
	IgnoreSettings []string          `key:"gossip.ignore_settings" help:"names of settings, such as gossip.downing, that may differ between this node and the cluster. Use it while you change a setting node by node" expert:"true"`
}

// DefaultJoining returns the defaults of the core.
func DefaultJoining() Joining {
	c := gossip.DefaultConfig()
	return Joining{MinMembers: c.MinMembers, WeaklyUpAfter: c.WeaklyUpAfter, GiveUp: c.JoinGiveUp}
}

// Apply sets what the core is to do.
func (j *Joining) Apply(c *gossip.Config) {
	c.Zone, c.MinMembers, c.WeaklyUpAfter = j.Zone, j.MinMembers, j.WeaklyUpAfter
	c.JoinGiveUp, c.RetryRefused, c.IgnoreSettings = j.GiveUp, j.RetryRefused, j.IgnoreSettings
	c.MinOfRole, _ = j.minOfRole() // Validate returns what is wrong with it
}

// minOfRole reads MinOfRole, sorted by role.
func (j *Joining) minOfRole() (least []gossip.RoleMinimum, err error) {
	var errs []error
	for _, role := range slices.Sorted(maps.Keys(j.MinOfRole)) {
		n, err := strconv.Atoi(j.MinOfRole[role])
		if err != nil || n < 1 || role == "" {
			errs = append(errs, setting.Errorf("gossip.min_of_role", "is %s=%s; give each role a number of members from 1 on, such as region=3", role, j.MinOfRole[role]))
			continue
		}
		least = append(least, gossip.RoleMinimum{Role: role, Members: n})
	}
	return least, errors.Join(errs...)
}

// Validate returns an error that names every key with an unusable value, and the fix.
func (j *Joining) Validate() error {
	errs := []error{setting.Ranges(j)}
	if j.Zone != "" {
		errs = append(errs, sharding.CheckText("node.zone", j.Zone, sharding.MaxTypeLen))
	}
	_, err := j.minOfRole()
	return errors.Join(append(errs, err)...)
}

package gossip

import (
	"fmt"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/phi"
)

// protocolVersion changes whenever the messages or rules of this package become
// incompatible with those before.
const protocolVersion = "1"

// Setting is something on which the nodes of a cluster have to agree, as text
// that is compared and shown.
type Setting struct{ Name, Value string }

// Limits of the settings that a joiner sends.
const (
	maxSettings     = 64
	maxSettingName  = 64
	maxSettingValue = 256
)

func bySettingName(a, b Setting) int { return strings.Compare(a.Name, b.Name) }

// settings are compared when this node joins or admits another one, sorted by name. Those that operators can set have
// the keys of services as names, so that a refusal names what to change. Presets are compared by their effect: two nodes
// with the same rates may have chosen them in different ways.
func (c *Config) settings() []Setting {
	var least []string
	for _, r := range c.MinOfRole {
		least = append(least, fmt.Sprintf("%d of %s", r.Members, r.Role))
	}
	slices.Sort(least)
	detector := phiName // cloud is phi with another threshold
	if c.Watch.Deadline != (phi.DeadlineConfig{}) {
		detector = deadlineName
	}
	all := []Setting{
		{"protocol", protocolVersion},
		{"gossip.detector", detector},
		{"gossip.threshold", fmt.Sprint(c.Watch.Phi.Threshold)},
		{"gossip.heartbeat_interval", c.Watch.Interval.String()},
		{"gossip.acceptable_pause", c.Watch.Phi.Pause.String()},
		{"gossip.monitored_by", fmt.Sprint(c.MonitoredBy)},
		{"gossip.interval", c.GossipInterval.String()},
		{"gossip.prefer_unseen", fmt.Sprint(c.PreferUnseen)},
		{"gossip.prefer_unseen_up_to", fmt.Sprint(c.PreferUnseenUpTo)},
		{"gossip.downing", describeDowning(c.Downing)},
		{"gossip.min_members", strings.Join(append([]string{fmt.Sprint(c.MinMembers)}, least...), ", ")},
		{"gossip.weakly_up_after", c.WeaklyUpAfter.String()},
		{"max-members", fmt.Sprint(c.MaxMembers)},
		{"tombstones", fmt.Sprintf("%d for %v", c.MaxTombstones, c.TombstoneTTL)},
	}
	all = slices.DeleteFunc(all, func(s Setting) bool { return slices.Contains(c.IgnoreSettings, s.Name) })
	slices.SortFunc(all, bySettingName)
	return all
}

// describeDowning names a strategy as it names itself, or else by its type.
func describeDowning(d Downing) string {
	if d == nil {
		return "by hand"
	}
	if s, ok := d.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", d)
}

func checkSettings(list []Setting) string {
	switch {
	case len(list) > maxSettings:
		return "too many settings"
	case !strictlySorted(list, bySettingName):
		return "settings are not sorted"
	case slices.ContainsFunc(list, func(s Setting) bool {
		return s.Name == "" || len(s.Name) > maxSettingName || len(s.Value) > maxSettingValue
	}):
		return "a setting has no name or is too long"
	}
	return ""
}

// differing says in which settings a joiner differs from the cluster, or "".
// Settings that only one of them has are not compared: a newer version may have
// more.
func differing(mine, theirs []Setting) string {
	var out []string
	for _, t := range theirs {
		i, ok := slices.BinarySearchFunc(mine, t.Name, func(s Setting, name string) int { return strings.Compare(s.Name, name) })
		if ok && mine[i].Value != t.Value {
			out = append(out, fmt.Sprintf("%s is %q at the joining node and %q in the cluster", t.Name, t.Value, mine[i].Value))
		}
	}
	return strings.Join(out, "; ")
}

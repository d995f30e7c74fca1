package gossip

import (
	"fmt"
	"slices"
	"strings"
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

// settings are compared when this node joins or admits another one, sorted by name. Gossip rates are not among them: they may differ
// between nodes.
func (c *Config) settings() []Setting {
	var least []string
	for _, r := range c.MinOfRole {
		least = append(least, fmt.Sprintf("%d of %s", r.Members, r.Role))
	}
	slices.Sort(least)
	all := []Setting{
		{"protocol", protocolVersion},
		{"heartbeat", fmt.Sprintf("every %v, pause %v, threshold %g", c.Watch.Interval, c.Watch.Phi.Pause, c.Watch.Phi.Threshold)},
		{"downing", describeDowning(c.Downing)},
		{"monitored-by", fmt.Sprint(c.MonitoredBy)},
		{"min-members", strings.Join(append([]string{fmt.Sprint(c.MinMembers)}, least...), ", ")},
		{"weakly-up-after", c.WeaklyUpAfter.String()},
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

package coordinator

import (
	"fmt"
	"strings"
)

// explanationText is an explanation in the traces of scenarios.
func explanationText(d Explanation) string {
	text := d.Kind.String()
	switch {
	case d.Kind == PlanMade:
		return fmt.Sprintf("%s, %d of %d moves begun", text, d.Begun, d.Moves)
	case d.Kind == Requested:
		text += " " + d.Request
	}
	if d.Shard.Type != "" {
		text += fmt.Sprintf(" %v", d.Shard)
	}
	if d.From != "" {
		text += " from " + strings.TrimSuffix(d.From, ":1")
	}
	if d.To != "" {
		text += " to " + strings.TrimSuffix(d.To, ":1")
	}
	if d.Kind != Requested {
		text += fmt.Sprintf(" %v: %v, by %s", d.Epoch, d.Cause, d.Strategy)
	}
	text += because(d.Reason)
	if d.Chosen.Region != "" {
		text += fmt.Sprintf("; has %d, %d in all", d.Chosen.Shards, d.Chosen.Total)
	}
	for _, o := range d.Alternatives() {
		text += fmt.Sprintf("; %s %d, %d: %v", o.Region, o.Shards, o.Total, o.Against)
	}
	if d.Unlisted > 0 {
		text += fmt.Sprintf("; and %d more", d.Unlisted)
	}
	return text
}

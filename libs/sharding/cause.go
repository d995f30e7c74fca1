package sharding

// Cause is the reason why a shard is at its region, or why it moves to another one. The numbers are
// stored: they keep their meaning.
type Cause uint8

// The causes. The zero value marks a shard that was never allocated.
const (
	// CauseFirstCommand: the shard was needed for the first time.
	CauseFirstCommand Cause = iota + 1
	// CauseBalance: the strategy wants the shard at another region. Most strategies even the regions out.
	CauseBalance
	// CauseLoad: the region had too much load.
	CauseLoad
	// CausePin: the shard is pinned.
	CausePin
	// CauseCapacity: the region had more shards than its capacity.
	CauseCapacity
	// CauseZone: the zone had more than its share.
	CauseZone
	// CauseMove: an operator, or a program, has moved it.
	CauseMove
	// CauseDrain: the region is being drained.
	CauseDrain
	// CauseLeave: the region leaves.
	CauseLeave
	// CauseRollout: the region leaves in a rollout, and does not have the target version.
	CauseRollout
	// CauseRegionLost: the region is lost.
	CauseRegionLost
	// CauseJournalCutOff: the region does not reach the journal.
	CauseJournalCutOff
	// CauseClaimRefused: the region could not claim the shard at its epoch.
	CauseClaimRefused
	// CauseNotClaimed: the region has not claimed the shard in time.
	CauseNotClaimed
	// CauseNotReleased: the region has not released the shard in time.
	CauseNotReleased
	// CauseReleased: the region has released the shard, without a request.
	CauseReleased
	// CauseCommandsRefused: the region has the shard, and gateways were refused again and again.
	CauseCommandsRefused
	// CauseUnreadable: no region reads what may be stored of the shard.
	CauseUnreadable
	// CauseFormsRead: the stored forms of the shard were read, and are fewer than assumed.
	CauseFormsRead
	// CauseRegionCame: the shard had no region, and one came that can have it.
	CauseRegionCame
	// CauseRepaired: the facts of the coordinators were repaired.
	CauseRepaired
)

var causeNames = [...]string{
	"", "first-command", "balance", "load", "pin", "capacity", "zone", "move", "drain", "leave", "rollout", "region-lost",
	"journal-cut-off", "claim-refused", "not-claimed", "not-released", "released", "commands-refused", "unreadable",
	"forms-read", "region-came", "repaired",
}

// String returns the name; "" without a cause, "unknown" for one of a later release.
func (c Cause) String() string {
	if int(c) >= len(causeNames) {
		return "unknown"
	}
	return causeNames[c]
}

// causeTexts say the causes in words, as what follows "because".
var causeTexts = map[string]string{
	"":                 "it was never allocated",
	"first-command":    "the shard was needed for the first time",
	"balance":          "the strategy wants it there",
	"load":             "its region had too much load",
	"pin":              "it is pinned there",
	"capacity":         "its region had more shards than its capacity",
	"zone":             "its zone had more than its share",
	"move":             "it was moved by request",
	"drain":            "its region is drained",
	"leave":            "its region leaves",
	"rollout":          "its region leaves in a rollout",
	"region-lost":      "its region was lost",
	"journal-cut-off":  "its region did not reach the journal",
	"claim-refused":    "its region could not claim it",
	"not-claimed":      "its region did not claim it in time",
	"not-released":     "its region did not release it in time",
	"released":         "its region released it",
	"commands-refused": "its region refused commands again and again",
	"unreadable":       "no region reads what may be stored of it",
	"forms-read":       "its stored data was examined",
	"region-came":      "a region came that can have it",
	"repaired":         "the facts of the coordinators were repaired",
}

// CauseText says in words what a [Cause] of that name is, as what follows "because".
func CauseText(name string) string {
	text, known := causeTexts[name]
	if !known {
		return "of " + name
	}
	return text
}

package splitbrain

// everybodyGoes downs all members whenever some are unreachable: for clusters
// that are started anew as a whole rather than repaired.
type everybodyGoes struct{}

func (everybodyGoes) decide(*sides) action { return downAll }

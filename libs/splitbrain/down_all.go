package splitbrain

// downEverything downs all members whenever some are unreachable: for clusters
// that are started anew as a whole rather than repaired.
type downEverything struct{}

func (downEverything) decide(*sides) action { return downAll }

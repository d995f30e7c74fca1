package sharding

// JournalState is the state of a region's journal, as the region reports it.
type JournalState uint8

const (
	// JournalAnswers: requests are answered.
	JournalAnswers JournalState = iota
	// JournalRecovering: it has only recently begun to answer again.
	JournalRecovering
	// JournalSilent: no request has succeeded for a while, although requests are
	// sent all the time.
	JournalSilent
)

// String is "answers", "recovering" or "silent".
func (s JournalState) String() string {
	switch s {
	case JournalRecovering:
		return "recovering"
	case JournalSilent:
		return "silent"
	}
	return "answers"
}

package sharding

// JournalState is what a region says of its journal.
type JournalState uint8

const (
	// JournalAnswers: what is asked is answered.
	JournalAnswers JournalState = iota
	// JournalRecovering: it answers again, but not for long.
	JournalRecovering
	// JournalSilent: nothing has succeeded for a while although something is
	// asked all the time.
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

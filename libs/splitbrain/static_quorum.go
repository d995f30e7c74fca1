package splitbrain

// staticQuorum keeps a side of at least size members. Two sides of that size must be impossible, so with
// more than 2·size-1 members all must leave.
type staticQuorum struct {
	size int
	role string
}

func (q staticQuorum) decide(s *sides) action {
	counted := filter{role: q.role, leaving: true}
	mine := s.count(false, counted)
	switch {
	case mine+s.count(true, counted) > 2*q.size-1: //mutant:false split-quorum-size
		return downAll
	case s.anyIndirect():
		return downIndirect
	case mine >= q.size:
		return downUnreachable
	}
	return downReachable
}

package splitbrain

// keepMajority keeps the larger side, of two equal ones the one with the lowest
// address. Both sides must count the same members. They do not if the leader
// moved some on just before the partition, which one side has not heard: the
// side that wants to stay counts again, pessimistically, and all go if that
// changes the result.
type keepMajority struct{ role string }

func (k keepMajority) decide(s *sides) action {
	if s.anyIndirect() {
		return downIndirect
	}
	counted := filter{role: k.role, leaving: true}
	if a := k.compare(s, counted, counted); a != downUnreachable {
		return a
	}
	mine, theirs := filter{role: k.role}, filter{role: k.role, joining: true, leaving: true}
	if k.compare(s, mine, theirs) != downUnreachable { //mutant:false split-recount
		return downAll
	}
	return downUnreachable
}

func (k keepMajority) compare(s *sides, mine, theirs filter) action {
	lowest := s.first(mine, byAddress)
	here, there := s.count(false, mine), s.count(true, theirs)
	switch {
	case lowest < 0:
		return downAll // no member counts
		//mutant:true split-tie !s.unreachable[lowest]
	case here > there, here == there && !s.unreachable[lowest]:
		return downUnreachable
	}
	return downReachable
}

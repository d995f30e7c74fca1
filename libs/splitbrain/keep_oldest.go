package splitbrain

// keepOldest keeps the side with the oldest member; if aloneGoes, not when it
// is alone there against two or more. The side that wants to stay counts again
// as in [keepMajority], since the oldest member may be leaving.
type keepOldest struct {
	role      string
	aloneGoes bool
}

func (k keepOldest) decide(s *sides) action {
	if s.anyIndirect() {
		return downIndirect
	}
	if a := k.compare(s, filter{role: k.role, leaving: true}); a != downUnreachable {
		return a
	}
	if k.compare(s, filter{role: k.role, joining: k.aloneGoes}) != downUnreachable { //mutant:false split-recount
		return downAll
	}
	return downUnreachable
}

func (k keepOldest) compare(s *sides, counted filter) action {
	oldest := s.first(filter{role: counted.role, leaving: counted.leaving}, byAge)
	if oldest < 0 {
		return downAll // no member counts
	}
	here, there := s.count(false, counted), s.count(true, counted)
	stays, alone := !s.unreachable[oldest], here == 1 && there > 1
	if !stays {
		alone = there == 1 && here > 1
	}
	if k.aloneGoes && alone {
		stays = !stays
	}
	if stays {
		return downUnreachable
	}
	return downReachable
}

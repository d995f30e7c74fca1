package server

import (
	"github.com/roost-cluster/roost/libs/wakeup"
)

// readWakes reads a page of wake-ups, as a load reads an entity.
func (s *shardLoop) readWakes(o wakeup.Read) {
	s.queue(job{Work: work{do: func() {
		page, err := s.journal.Wakes(s.ctx, o.WakesRequest)
		if err != nil {
			what := "cannot read reminders, firing them later"
			if o.Remembered {
				what = "cannot read remembered entities, starting them later"
			}
			s.log.Warn(what, "error", err)
		}
		s.put(item{in: wakeup.Page{Number: o.Number, Remembered: o.Remembered, WakesPage: page, Err: err}})
	}}})
}

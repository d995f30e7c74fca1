package server

import (
	"github.com/roost-cluster/roost/libs/wakeup"
)

// readWakes reads a page of wake-ups, as a load reads an entity.
func (s *shardLoop) readWakes(o wakeup.Read) {
	s.queue(job{Work: work{do: func() {
		page, err := s.journal.Wakes(s.ctx, o.WakesRequest)
		if err != nil {
			what := "reminders cannot be read; they fire later"
			if o.Remembered {
				what = "it cannot be read which entities are remembered; they are started later"
			}
			s.log.Warn(what, "error", err)
		}
		s.put(item{in: wakeup.Page{Number: o.Number, Remembered: o.Remembered, WakesPage: page, Err: err}})
	}}})
}

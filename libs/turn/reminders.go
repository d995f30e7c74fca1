package turn

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/sharding"
)

// The number of reminders of an entity that stand is bounded. It is counted when the entity is
// loaded. A reminder that is set may replace another one, so what is added after that makes the
// number an upper bound. When the bound reaches the limit, the entity is loaded again, which
// counts anew, and the command runs again.

// countReminders counts the reminders that a turn sets. If more may stand then than are allowed,
// they do not fit, and the turn must be undone: the reply is a refusal, unless they are to be
// counted anew first.
func (m *Machine) countReminders(e *entity, c *command, in *TurnDone) (fits, recount bool) {
	sets := 0
	for i := range in.Wakes {
		if w := &in.Wakes[i]; w.Kind == sharding.ReminderWake && w.Due != 0 {
			sets++
		}
	}
	// Invariant: the number of standing reminders of an entity is limited.
	// Guarded by: `turn.countReminders` keeps an upper bound of this number. When the bound reaches the limit, the
	// reminders are counted anew.
	// Mutants: reminders-limit
	if sets == 0 || e.volatile() || in.Spoiled || in.Reply.Outcome != sharding.Executed { //mutant:true reminders-limit
		return true, false
	}
	ends := 0
	if w := c.wakeup; w != nil && w.Kind == sharding.ReminderWake && w.Next == 0 {
		ends = 1 // the reminder that fires goes with the turn, which may set it again
	}
	if e.reminders+sets-ends <= m.cfg.RemindersPerEntity {
		e.reminders += sets
		return true, false
	}
	if !c.recounted {
		c.recounted = true
		return false, true
	}
	timing := c.reply.Timing
	c.reply = sharding.Reject(sharding.ResourceExhausted, fmt.Sprintf(
		"%d reminders of the entity stand, and the command sets %d; at most %d may stand (region.reminders.per_entity); cancel some, or let some fire", e.reminders, sets, m.cfg.RemindersPerEntity))
	c.reply.Timing = timing
	return false, false
}

// remindersFired notes that reminders have fired for the last time.
func (e *entity) remindersFired(fired []sharding.Fired) {
	for i := range fired {
		if f := &fired[i]; f.Kind == sharding.ReminderWake && f.Next == 0 {
			e.reminders = max(0, e.reminders-1)
		}
	}
}

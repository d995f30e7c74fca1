package instance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// MinReminderPeriod is the shortest period of a repeated reminder: each firing is a
// transaction of the journal.
const MinReminderPeriod = time.Second

// MaxReminders bounds the reminders that a turn may change: as many as a record may have.
const MaxReminders = 1000

// MaxReminderYear is the last year in which a reminder can be due: later ones have no text that an operator
// could search for.
const MaxReminderYear = 9999

// StoreClock is implemented by an [Asker] that knows the clock of the journal's store. Otherwise the store
// has the clock of the turn.
type StoreClock interface {
	StoreNow() time.Time
}

// storeNow returns the time by the clock of the journal's store, which determines when reminders are due.
func (t *Turn) storeNow() time.Time {
	if s, ok := t.asker.(StoreClock); ok {
		return s.StoreNow()
	}
	return t.now
}

// Remind sets a reminder for a command of the entity.
func (t *Turn) Remind(c *Command, at time.Time, name string, in any) { t.remind(c, at, 0, name, in) }

// RemindAfter sets a reminder that is due when d has passed by the clock of the journal's store.
func (t *Turn) RemindAfter(c *Command, d time.Duration, name string, in any) {
	if d < 0 {
		t.Break(reminderText(name), misused("it is due after %s, must be after 0 or more", d))
		return
	}
	t.remind(c, t.storeNow().Add(d), 0, name, in)
}

// RemindEvery sets a repeated reminder.
func (t *Turn) RemindEvery(c *Command, period time.Duration, name string, in any) {
	if period < MinReminderPeriod {
		t.Break(reminderText(name), misused("its period is %s, must be at least %s; Every has shorter ones, for as long as the entity is alive", period, MinReminderPeriod))
		return
	}
	t.remind(c, t.storeNow().Add(period), period, name, in)
}

// CancelReminder removes the reminder with the given name, if there is one.
func (t *Turn) CancelReminder(name string) {
	if err := t.mayRemind(name); err != nil {
		t.Break(reminderText(name), err)
		return
	}
	t.setWake(sharding.Wake{Kind: sharding.ReminderWake, Name: name})
}

func (t *Turn) remind(c *Command, at time.Time, period time.Duration, name string, in any) {
	err := t.mayRemind(name)
	if err == nil && !t.inst.typ.has(c) {
		err = misused("command %s.%s is not one of type %s; an entity can remind itself only", c.Type, c.Desc.Name, t.inst.typ.Name)
	}
	var input sharding.Input
	if err == nil {
		input, err = c.store(in)
	}
	if err == nil {
		err = checkTime(at)
	}
	if err != nil {
		t.Break(reminderText(name), err)
		return
	}
	due := at.Add(time.Millisecond - 1).UnixMilli() // never early
	t.setWake(sharding.Wake{
		Kind: sharding.ReminderWake, Name: name, Due: max(1, due), Period: period.Milliseconds(), Input: input,
	})
}

func checkTime(at time.Time) error {
	switch {
	case at.IsZero():
		return misused("it has no time; give Remind the time at which it is due")
	case at.UTC().Year() > MaxReminderYear:
		return misused("its time is in the year %d, must be in %d at the latest; to remind never, do not set it", at.UTC().Year(), MaxReminderYear)
	}
	return nil
}

// mayRemind returns an error unless the running turn may set and remove reminders.
func (t *Turn) mayRemind(name string) error {
	switch {
	case t.calls.ended():
		return ErrTurnOver
	case t.inst.typ.Volatile:
		return misused("type %s is volatile and keeps nothing; use After or Every, which last as long as the entity is alive", t.inst.typ.Name)
	case t.readOnly:
		return misused("%s changes nothing, so it cannot set or cancel reminders", t.command)
	case t.wants().deleted:
		return misused("%w; set or cancel reminders before Delete, or not at all", ErrDeleted)
	case name == "" || len(name) > sharding.MaxWakeNameLen:
		return misused("its name has %d bytes, must have 1 to %d", len(name), sharding.MaxWakeNameLen)
	}
	// Names that look the same in a list are refused.
	if err := sharding.CheckText("its name", name, sharding.MaxWakeNameLen); err != nil {
		return misused("%w", err)
	}
	return nil
}

func reminderText(name string) string { return fmt.Sprintf("reminder %q", shortName(name)) }

// shortName leaves room in an error for what is wrong: messages have a greatest length.
func shortName(name string) string {
	const most = 64
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// setWake stages a change of a wake-up; the last one of a name counts.
func (t *Turn) setWake(w sharding.Wake) {
	e := t.change()
	if i := slices.IndexFunc(e.wakes, func(o sharding.Wake) bool { return o.Name == w.Name }); i >= 0 {
		e.wakes[i] = w
		return
	}
	if len(e.wakes) == MaxReminders {
		t.Break(reminderText(w.Name), misused("it is one too many: a turn may change %d reminders; change some of them in another turn", MaxReminders))
		return
	}
	e.wakes = append(e.wakes, w)
}

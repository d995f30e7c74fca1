package entity

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Reminder describes the reminder that a command runs for.
type Reminder struct {
	Name string
	// Due is the time at which it was due.
	Due time.Time
	// Missed is the number of times that a repeated reminder was due after Due and did not run, because the
	// entity could not be reached or the command failed.
	Missed int
}

// Reminder returns the reminder that the command runs for; not ok: it runs for a caller or a timer.
func (c *Ctx) Reminder() (r Reminder, ok bool) {
	if c.wakeup == nil || c.wakeup.Kind != sharding.ReminderWake {
		return r, false
	}
	return Reminder{Name: c.wakeup.Name, Due: time.UnixMilli(c.wakeup.Due).UTC(), Missed: int(c.wakeup.Missed)}, true
}

// Remind sends the command to the entity itself at a time, such as the end of a month, by the clock of the
// journal's store, even if it was passivated or moved by then, or its region has failed. A reminder is
// identified by its name: setting it again replaces it, and [Ctx.CancelReminder] removes it. It becomes
// durable together with the events of the turn, and counts only if the handler succeeds.
//
// The command takes effect at most once: what it stages becomes durable together with the end of the
// reminder. It runs late if no region could run it in time, never early by the journal's clock. If it fails
// with anything but an error made by [Errorf], it is undone and retried after a pause of 0.5 to 1 s, which
// grows up to 1 min. The region's log, "roost entity reminders --failing" and the metric roost.region.reminders.failing
// show it.
//
// The input is stored until the command runs, perhaps by a later version of the program: see
// [Handle.Stored], without which the turn fails. So it does if the input cannot be stored, the time
// is zero or after the year 9999, in a read-only command, and for a volatile type, which keeps
// nothing: use After there. A name has 1 to 256 bytes of UTF-8, and no control or format characters:
// operators see it in lists.
func (h *Handle[In, Out]) Remind(ctx *Ctx, at time.Time, name string, in In) {
	h.remind(ctx, at, 0, name, in)
}

// RemindAfter does the same as [Handle.Remind] when a duration has passed. Use it rather than Remind with
// ctx.Now().Add(d): reminders are due by the clock of the journal's store, and [Ctx.Now] uses the region's
// machine. If the two clocks differ, only RemindAfter waits for d. The duration must not be negative.
func (h *Handle[In, Out]) RemindAfter(ctx *Ctx, d time.Duration, name string, in In) {
	if d < 0 {
		ctx.breakTurn(reminderText(name), misused("it is due after %s, must be after 0 or more", d))
		return
	}
	h.remind(ctx, ctx.storeNow().Add(d), 0, name, in)
}

// StoreClock is implemented by an [Asker] that knows the clock of the journal's store. Otherwise the store
// has the clock of the turn.
type StoreClock interface {
	StoreNow() time.Time
}

// storeNow returns the time by the clock of the journal's store, which determines when reminders are due.
func (c *Ctx) storeNow() time.Time {
	if s, ok := c.asker.(StoreClock); ok {
		return s.StoreNow()
	}
	return c.now
}

// RemindEvery sends the command to the entity itself repeatedly, for the first time when the period has
// passed by the journal's clock, as with [Handle.RemindAfter]. The period is at least 1 s. The next time is
// counted from the time at which the command was due, not from the time at which it ran. If several times
// have passed by then, it runs once for all of them, and [Ctx.Reminder] returns the number of missed ones.
// The rest is as for [Handle.Remind].
func (h *Handle[In, Out]) RemindEvery(ctx *Ctx, period time.Duration, name string, in In) {
	if period < MinReminderPeriod {
		ctx.breakTurn(reminderText(name), misused("its period is %s, must be at least %s; Every has shorter ones, for as long as the entity is alive", period, MinReminderPeriod))
		return
	}
	h.remind(ctx, ctx.storeNow().Add(period), period, name, in)
}

// MinReminderPeriod is the shortest period of a repeated reminder: each firing is a
// transaction of the journal.
const MinReminderPeriod = time.Second

// CancelReminder removes the reminder with the given name, if there is one. It counts only if
// the handler succeeds.
func (c *Ctx) CancelReminder(name string) {
	if err := c.mayRemind(name); err != nil {
		c.breakTurn(reminderText(name), err)
		return
	}
	c.setWake(sharding.Wake{Kind: sharding.ReminderWake, Name: name})
}

func (h *Handle[In, Out]) remind(ctx *Ctx, at time.Time, period time.Duration, name string, in In) {
	err := ctx.mayRemind(name)
	var input sharding.Input
	if err == nil {
		input, err = h.store(ctx, in)
	}
	if err == nil {
		err = checkTime(at)
	}
	if err != nil {
		ctx.breakTurn(reminderText(name), err)
		return
	}
	due := at.Add(time.Millisecond - 1).UnixMilli() // never early
	ctx.setWake(sharding.Wake{
		Kind: sharding.ReminderWake, Name: name, Due: max(1, due), Period: period.Milliseconds(), Input: input,
	})
}

// maxReminderYear is the last year in which a reminder can be due: later ones have no text that an operator
// could search for.
const maxReminderYear = 9999

func checkTime(at time.Time) error {
	switch {
	case at.IsZero():
		return misused("it has no time; give Remind the time at which it is due")
	case at.UTC().Year() > maxReminderYear:
		return misused("its time is in the year %d, must be in %d at the latest; to remind never, do not set it", at.UTC().Year(), maxReminderYear)
	}
	return nil
}

// store encodes an input so that it can be read later.
func (h *Handle[In, Out]) store(ctx *Ctx, in In) (sharding.Input, error) {
	if b := ctx.inst.def.commands[h.desc.Name]; h.typ != ctx.inst.def.name || b == nil {
		return sharding.Input{}, misused("command %s.%s is not one of type %s; an entity can remind itself only", h.typ, h.desc.Name, ctx.inst.def.name)
	}
	return h.encodeInput(in)
}

// mayRemind returns an error unless the running turn may set and remove reminders.
func (c *Ctx) mayRemind(name string) error {
	switch {
	case c.calls.ended():
		return ErrTurnOver
	case c.inst.def.volatile:
		return misused("type %s is volatile and keeps nothing; use After or Every, which last as long as the entity is alive", c.inst.def.name)
	case c.readOnly:
		return misused("%s changes nothing, so it cannot set or cancel reminders", c.command)
	case c.wants().deleted:
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
func (c *Ctx) setWake(w sharding.Wake) {
	e := c.change()
	if i := slices.IndexFunc(e.wakes, func(o sharding.Wake) bool { return o.Name == w.Name }); i >= 0 {
		e.wakes[i] = w
		return
	}
	if len(e.wakes) == maxReminders {
		c.breakTurn(reminderText(w.Name), misused("it is one too many: a turn may change %d reminders; change some of them in another turn", maxReminders))
		return
	}
	e.wakes = append(e.wakes, w)
}

// maxReminders bounds the reminders that a turn may change: as many as a record may have.
const maxReminders = 1000

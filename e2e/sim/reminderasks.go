package sim

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// In the harsh climate the commands of some reminders ask other entities, as Forwards do. What such
// a turn does elsewhere is not in the append of the firing, so the journal cannot refuse it when the
// reminder does not stand any more: the entity core must not let it ask.

// mayRemindAsk reports whether reminders may ask in this weather. Where ids expire, a command
// may set its reminder twice, and each of the two asks. Where there are forms, a reminder's input has
// the form of Add.
func (w *World) mayRemindAsk() bool {
	return w.weather.Harsh.Forward > 0 && !w.weather.Harsh.Expires && !w.weather.Forms
}

// remindIn is the time from a command to its reminder, in milliseconds.
func remindIn(x uint64) int64 { return int64(x * 37 % 5000) }

// remindAndEnd sets a reminder that asks, and has it end before it fires.
func (w *World) remindAndEnd() {
	if !w.mayRemindAsk() {
		return
	}
	d, c := w.dice("reminders that end"), w.idleClient(len(w.clients)+6)
	e := w.entities[d.IntN(len(w.entities))]
	if w.volatile(e) {
		return
	}
	o := c.newForward(e, 0)
	o.cmd = cmdRemindAsk
	c.send(o, d.IntN(gateways), nanos(d.between(sec, 6*sec)))
	w.endBeforeItFires(o)
}

// endBeforeItFires cancels the reminder of a command, or deletes the entity, about when it is due,
// and makes the firing wait for a later turn.
func (w *World) endBeforeItFires(set *op) {
	d := w.dice("reminders that end")
	w.after(max(0, remindIn(set.x)*ms-d.between(0, 200*ms)), func() {
		if w.calm {
			return
		}
		c := w.idleClient(len(w.clients) + 6)
		c.gateway = d.IntN(gateways)
		send := func(cmd string, hold int64) {
			o := c.newForward(set.entity, hold)
			o.cmd = cmd
			c.send(o, c.gateway, nanos(d.between(sec, 6*sec)))
		}
		if uint64(len(w.ops)+1)%2 != set.x%2 {
			send(cmdAdd, 0) // the next one has the name of the reminder
		}
		if d.chance(0.8) {
			send(cmdCancel, 0)
		} else {
			send(cmdDelete, 0)
		}
		send(cmdForward, d.between(50*ms, 400*ms))
	})
}

// commandName names a command over all its attempts.
type commandName struct {
	entity sharding.Entity
	key    sharding.CommandID
}

// reminderAsks checks that a reminder does nothing elsewhere after a caller learned that it was
// cancelled, set again, or deleted with its entity: later asks of its turn never take effect.
func (c *checker) reminderAsks(log []commit) {
	stands := map[reminderName]uint64{} // the number of the command that has set it
	for _, commit := range log {
		a := commit.Append
		for i := range a.Fired {
			delete(stands, reminderName{a.Entity, a.Fired[i].Name})
		}
		for i := range a.Records {
			r := &a.Records[i]
			ends := func(id reminderName) {
				if x, ok := stands[id]; ok {
					c.askedInVain(x, commandName{a.Entity, r.Command}, commit.at)
					delete(stands, id)
				}
			}
			if r.Delete {
				for id := range stands { // order-free: all of the entity end
					if id.entity == a.Entity {
						ends(id)
					}
				}
			}
			for _, k := range r.Wakes {
				id := reminderName{a.Entity, k.Name}
				if k.Kind != sharding.ReminderWake {
					continue
				}
				if ends(id); k.Due != 0 && k.Input.Command == cmdForward {
					stands[id] = ofReminder(decodeNumber(k.Input.Payload))
				}
			}
		}
	}
}

// askedInVain checks what the reminder of a command has asked, which a later command has ended at
// a time.
func (c *checker) askedInVain(x uint64, by commandName, ended int64) {
	w := c.w
	w.mark("reminder: one that asks is ended before it has fired")
	answers := w.answeredAt[by]
	i := slices.IndexFunc(answers, func(t int64) bool { return t >= ended })
	if i < 0 {
		return
	}
	for _, f := range w.asksBy[x] {
		if f.firstAsked <= answers[i] {
			continue // it was not asked, or before
		}
		w.mark("reminder: one that was ended has asked")
		if done := c.effectOf(f); done != nil {
			w.violate("a reminder that was cancelled does nothing", "%s of %v was answered at %s, and %v took effect, which the reminder of number %x asked for at %s", by.key, by.entity, at(answers[i]), &done.op, x, at(f.firstAsked))
		}
	}
}

// effectOf returns a command that took effect, of one that was asked for and those that its turn
// has asked for in turn.
func (c *checker) effectOf(f *ask) *ask {
	if len(c.where[f.x]) > 0 {
		return f
	}
	for _, next := range c.w.asksBy[f.x] {
		if done := c.effectOf(next); done != nil {
			return done
		}
	}
	return nil
}

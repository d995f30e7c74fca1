package instance

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/turn"
)

// MinTimerInterval is the shortest interval of a repeated timer: each firing is a turn.
const MinTimerInterval = time.Millisecond

func timerText(name string) string { return fmt.Sprintf("timer %q", shortName(name)) }

// After sets a timer for a command of the entity.
func (t *Turn) After(c *Command, d time.Duration, name string, in any) {
	t.timer(c, turn.Timer{Name: name, After: max(d, 1)}, in)
}

// Every sets a repeated timer for a command of the entity.
func (t *Turn) Every(c *Command, d time.Duration, name string, in any) {
	if d < MinTimerInterval {
		t.Break(timerText(name), misused("its interval is %s, must be at least %s", d, MinTimerInterval))
		return
	}
	t.timer(c, turn.Timer{Name: name, After: d, Every: d}, in)
}

func (t *Turn) timer(c *Command, timer turn.Timer, in any) {
	payload, enc, err := c.Encode(in)
	switch typ := t.inst.typ; {
	case t.over(timerText(timer.Name)):
		return
	case err != nil:
		err = fmt.Errorf("the input of %s cannot be encoded: %w", c.Desc.Name, err)
	case !typ.has(c):
		err = misused("command %s.%s is not one of type %s; a timer is for the entity itself", c.Type, c.Desc.Name, typ.Name)
	case c.Answers:
		err = &misuse{ErrAnswerOnly}
	}
	if err != nil {
		t.Break(timerText(timer.Name), err)
		return
	}
	timer.Command, timer.Payload, timer.Encoding = c.Desc.Name, payload, enc
	e := t.change()
	e.timers = append(e.timers, timer)
}

// CancelTimer cancels the timer with the given name, if there is one.
func (t *Turn) CancelTimer(name string) {
	if !t.over(fmt.Sprintf("cancel timer %q", name)) {
		e := t.change()
		e.timers = append(e.timers, turn.Timer{Name: name})
	}
}

// has reports whether a command is one of the type.
func (t *Type) has(c *Command) bool { return c.Type == t.Name && t.commands[c.Desc.Name] != nil }

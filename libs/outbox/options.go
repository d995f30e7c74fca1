package outbox

import (
	"cmp"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// options returns how a send is delivered: by its own options, and by the Config where it has none.
func (d *Dispatcher) options(x *send) sharding.SendOptions {
	o := x.Options
	// Invariant: a send has the time-out, the pauses and the age of its command. They are stored with it. It is given
	// up at its age, and never later than its target remembers keys.
	// Guarded by: `outbox.options`, `retryPause`. `turn.refuseSends` refuses a send whose age is too long.
	// Mutants: send-options, ends-in-pause, send-age-limit, send-age-refused
	//mutant:do send-options o = sharding.SendOptions{}
	o.Timeout = cmp.Or(o.Timeout, d.cfg.AttemptTimeout)
	if o.RetryMax == 0 {
		o.RetryMin, o.RetryMax = d.cfg.RetryMin, d.cfg.RetryMax
	}
	// The region has refused sends with a longer age. But it may have been started with another configuration since.
	if o.MaxAge > d.cfg.AgeLimit { //mutant:false send-age-limit
		o.MaxAge = d.cfg.AgeLimit
	}
	o.MaxAge = cmp.Or(o.MaxAge, d.cfg.MaxAge)
	return o
}

// lifetime returns how long after it was stored a send is given up: later, if its target has answered, because then only
// its sender has to take the answer.
func (d *Dispatcher) lifetime(x *send) time.Duration {
	age := d.options(x).MaxAge
	if x.answer != nil {
		age += d.cfg.TakeGrace
	}
	return age
}

// expired reports whether a send is to be given up.
func (d *Dispatcher) expired(x *send) bool { return d.left(x) <= 0 }

// left returns for how much longer a send is tried.
func (d *Dispatcher) left(x *send) time.Duration {
	return d.lifetime(x) - time.Duration(d.wall()-x.at.UnixMilli())*time.Millisecond
}

// retryPause returns the pause after a failed attempt for the first send of a pair. It ends when the send is to be given
// up: a send may have long pauses, and a short life.
func (d *Dispatcher) retryPause(p *pair) time.Duration {
	x := p.queue[0]
	o := d.options(x)
	pause := d.sweep.Jitter.Pause(p.Times, o.RetryMin, o.RetryMax)
	//mutant:false ends-in-pause
	if left := d.left(x); left > 0 {
		pause = min(pause, left+time.Millisecond) // the clock of the store is known in whole milliseconds
	}
	return pause
}

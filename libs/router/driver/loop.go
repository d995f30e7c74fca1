package driver

import (
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

// item is one thing for the loop to process: one of the four fields is set.
type item struct {
	in     router.Input
	call   *Call         // a command to submit
	do     func()        // runs inside the loop, and may inspect or step the core
	answer router.Answer // if its Attempt is set
}

// Answers adds the answers of a region, in their order. It does not wait. The slice may be
// used again; the payloads may not.
func (d *Driver) Answers(as []link.Answer) {
	d.inbox.Fill(func(items []item) []item {
		for i := range as {
			a := &as[i]
			if a.NotMine != nil {
				items = append(items, item{in: router.NotMine{Attempt: router.Attempt(a.Number), Refused: a.NotMine.Refused, Row: a.NotMine.Row}})
			} else {
				items = append(items, item{answer: router.Answer{Attempt: router.Attempt(a.Number), Reply: a.Reply}})
			}
		}
		return items
	})
}

// takeBatch steps each item of a batch. It never waits.
func (d *Driver) takeBatch(items []item, tick bool) {
	if n := d.delivered.Swap(0); n != 0 {
		d.step(router.Delivered{Bytes: int(n)})
	}
	for i := range items {
		d.takeIn(&items[i])
	}
	if tick {
		if d.cfg.Ticked != nil {
			d.cfg.Ticked()
		}
		d.step(router.Tick{})
	}
	d.flush()
	if d.drained != nil && len(d.calls) == 0 {
		close(d.drained)
		d.drained = nil
	}
}

func (d *Driver) takeIn(it *item) {
	switch {
	case it.call != nil:
		d.calls[it.call.ID] = it.call
		in := router.Submit{Request: it.call.ID, Env: &it.call.Env, ReadOnly: it.call.ReadOnly}
		d.performAll(d.core.Submit(time.Now(), &in, d.outs[:0]))
	case it.answer.Attempt != 0:
		d.performAll(d.core.Answer(time.Now(), &it.answer, d.outs[:0]))
	case it.do != nil:
		it.do()
	default:
		d.step(it.in)
	}
}

func (d *Driver) step(in router.Input) {
	d.performAll(d.core.Step(time.Now(), in, d.outs[:0]))
}

// performAll performs the outputs of a step, and then steps the core with what has
// happened to sends and links meanwhile.
func (d *Driver) performAll(outs []router.Output) {
	d.performOnce(outs)
	for in, ok := d.sender.Next(); ok; in, ok = d.sender.Next() {
		d.performOnce(d.core.Step(time.Now(), in, d.outs[:0]))
	}
}

// performOnce performs the outputs of a step. Their slice is reused.
func (d *Driver) performOnce(outs []router.Output) {
	d.generation.Store(uint64(d.core.Generation()))
	for _, o := range outs {
		d.perform(o)
	}
	clear(outs)
	d.outs = outs
}

func (d *Driver) perform(o router.Output) {
	switch o := o.(type) {
	case router.SendCommand:
		d.sendCommand(&o)
	case router.Finish:
		if c := d.calls[o.Request]; c != nil {
			delete(d.calls, o.Request)
			d.finish = o
			c.End(&d.finish)
			d.finish = router.Finish{}
		}
	case router.Connect:
		d.connect(o.Region)
	case router.Disconnect:
		d.disconnect(o.Region)
	case router.Send:
		d.send(o)
	}
}

// send sends a control message, in the background.
func (d *Driver) send(o router.Send) {
	if !control.IsCall(o.Msg) {
		d.cfg.Send(sharding.NodeID{Addr: o.To}, o.Msg)
		return
	}
	go func() {
		answer, err := d.cfg.Call(d.ctx, o.To, o.Msg)
		in := router.Replied{From: o.To, Asked: o.Msg, Msg: answer}
		d.Do(func() {
			d.step(in)
			if d.cfg.Answered != nil {
				d.cfg.Answered(in, err)
			}
		})
	}()
}

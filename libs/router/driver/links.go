package driver

import (
	"errors"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

// openLink is a link that is up.
type openLink struct {
	Outlet
	queued bool // commands wait for flush
}

// connect starts to keep a link up. Its events come back as inputs; links are numbered
// across all regions.
func (d *Driver) connect(region sharding.NodeID) {
	if d.cfg.Local != nil && region == d.cfg.Link.Self {
		d.sender.Up(router.LinkUp{Region: region, Link: d.lastLink.Add(1)}, &openLink{Outlet: d.cfg.Local})
		return
	}
	var client *link.Client
	var number uint64 // of the link that is up; Up and Down alternate
	var err error
	cfg := d.cfg.Link
	if cfg.Generation == nil {
		cfg.Generation = func() sharding.Generation { return sharding.Generation(d.generation.Load()) }
	}
	client, err = link.NewClient(cfg, region, link.Events{
		Up: func(open *link.Link) {
			number = d.lastLink.Add(1)
			up := router.LinkUp{Region: region, Link: number}
			d.Do(func() {
				if d.links[region] == client { // else disconnected meanwhile
					d.linkUp(up, open)
				}
			})
		},
		Down: func(_ *link.Link, down link.Down) {
			in := router.LinkDown{Region: region, Link: number}
			d.Do(func() { d.linkDown(in, &down) })
		},
		Failed: func(err error, gone bool) {
			d.log.Debug("no link to a region", "region", region.Addr, "gone", gone, "error", err)
		},
		Answers: func(_ *link.Link, as []link.Answer) { d.Answers(as) },
	})
	if err != nil {
		// The row has an invalid address; another row will replace it.
		d.log.Error("table row has an invalid region address", "region", region, "error", err)
		return
	}
	d.links[region] = client
}

// disconnect closes a link; the loop does not wait for that.
func (d *Driver) disconnect(region sharding.NodeID) {
	d.sender.Close(region)
	if client := d.links[region]; client != nil {
		delete(d.links, region)
		d.jobs.Go(client.Close)
	}
}

func (d *Driver) linkUp(in router.LinkUp, open *link.Link) {
	d.log.Info("link up", "region", in.Region.Addr)
	d.sender.Up(in, &openLink{Outlet: open})
	d.performAll(d.outs[:0])
}

func (d *Driver) linkDown(in router.LinkDown, down *link.Down) {
	if stalled := new(link.Stalled); errors.As(down.Reason, &stalled) {
		d.log.Warn("closed a stalled link to a region", "hint", "commands in flight on it are in doubt",
			"region", in.Region.Addr, "reason", stalled.Err, "pending_bytes", stalled.Pending, "silence", stalled.For)
	} else {
		d.log.Info("link down", "region", in.Region.Addr, "reason", down.Reason)
	}
	unsent := make([]router.Attempt, len(down.Unsent))
	for i, number := range down.Unsent {
		unsent[i] = router.Attempt(number)
	}
	d.sender.Down(in, unsent)
	d.performAll(d.outs[:0])
}

// sendCommand queues a command on its link, if the Sender allows it.
func (d *Driver) sendCommand(o *router.SendCommand) {
	l, ok := d.sender.Link(o)
	if !ok {
		return
	}
	d.command = link.Command{Number: uint64(o.Attempt), Epoch: o.Epoch, Envelope: o.Env}
	err := l.Queue(o.Shard.Index, &d.command)
	switch {
	case err == nil && !l.queued:
		l.queued = true
		d.queued = append(d.queued, l)
	case err == nil:
	case errors.Is(err, link.ErrTooLarge):
		d.sender.Refused(o, err)
	default:
		d.sender.Failed(o)
	}
}

// flush writes the commands that the batch has queued, once per link.
func (d *Driver) flush() {
	for _, l := range d.queued {
		l.queued = false
		l.Flush()
	}
	clear(d.queued)
	d.queued = d.queued[:0]
}

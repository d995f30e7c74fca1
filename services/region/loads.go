package region

import (
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A report to the coordinator has the changes since the report before, or everything if the
// coordinator perhaps does not know that report: because its answer did not come, or because its
// term is new. One of every LoadFull reports has everything anyway.

// loadReports records the loads that this region has measured and reported.
type loadReports struct {
	cores []*ShardLoads    // the newest loads of each shard core; nil: it has measured none yet
	node  control.NodeLoad // the newest measurement of the machine and the process
	call  repeated         // ReportLoad
	// number is the number of the newest report. taken is true once the coordinator has acknowledged it. told
	// has the loads that the coordinator knows then, sorted by shard.
	number uint64
	told   []control.ShardLoad
	taken  bool
}

// reportLoad reports the loads, some time after the last report was answered.
func (c *ControlCore) reportLoad() {
	r := &c.loads
	to, _, registered := c.Coordinator()
	pause := c.cfg.LoadInterval
	if r.call.askedOf == to {
		pause = max(pause, c.cfg.Watch.Timeout) // the last report is not answered, and perhaps never will be
	}
	if c.cfg.LoadInterval == 0 || !registered || c.left || c.now.Sub(r.call.at) < pause || slices.Contains(r.cores, nil) {
		return
	}
	list := heaviest{most: c.cfg.LoadShards}
	for _, core := range r.cores {
		list.rest = list.rest.Plus(core.Rest)
		for _, s := range core.Shards {
			list.add(s)
		}
	}
	now := list.end()
	r.number++
	report := control.ReportLoad{Number: r.number, Full: !r.taken || r.number%uint64(c.cfg.LoadFull) == 0, Rest: now.Rest, Node: r.node}
	if report.Full {
		report.Shards, r.told = now.Shards, now.Shards
	} else {
		report.Shards, r.told = changes(r.told, now.Shards)
	}
	r.taken = false
	r.call = repeated{at: c.now, askedOf: to}
	c.emit(Send{To: to, Msg: report})
}

// loadTaken notes that a coordinator has acknowledged a report.
func (c *ControlCore) loadTaken(asked control.ReportLoad, in control.LoadAck) {
	if c.current(in.Term) && in.Term == c.registered && asked.Number == c.loads.number {
		c.loads.taken = true
	}
}

// changes returns the report to a coordinator that knows the loads in before, and the loads that it knows
// then. All lists are sorted by shard.
func changes(before, now []control.ShardLoad) (report, told []control.ShardLoad) {
	for len(before)+len(now) > 0 {
		order := 1
		switch {
		case len(now) == 0:
			order = -1
		case len(before) > 0:
			order = before[0].Shard.Compare(now[0].Shard)
		}
		switch {
		case order < 0: // it is part of the rest now, or gone
			report = append(report, control.ShardLoad{Shard: before[0].Shard})
		case order == 0 && !differs(before[0].Load, now[0].Load):
			told = append(told, before[0])
		default:
			report, told = append(report, now[0]), append(told, now[0])
		}
		if order <= 0 {
			before = before[1:]
		}
		if order >= 0 {
			now = now[1:]
		}
	}
	return report, told
}

// differs reports whether a load has changed by more than a sixteenth in some part, and by
// more than placement could notice.
func differs(a, b sharding.Load) bool {
	for _, part := range [...][3]uint64{
		{a.HandlerMicros, b.HandlerMicros, 1000}, {a.MilliCommands, b.MilliCommands, 1000}, {a.MilliWaiting, b.MilliWaiting, 100},
		{a.JournalBytes, b.JournalBytes, 1 << 10}, {a.Entities, b.Entities, 100}, {a.Bytes, b.Bytes, 1 << 20},
	} {
		least, most := min(part[0], part[1]), max(part[0], part[1])
		if most-least > max(part[2], most/16) {
			return true
		}
	}
	return false
}

package sharding

// Load is the load that a shard, or several shards together, put on the region that hosts them, as
// measured by the region. Rates are smoothed. The parts are whole numbers, so that sums are exact
// in whatever order they are made.
type Load struct {
	// HandlerMicros is the time that handlers ran, in microseconds per second. It is wall-clock
	// time, from the start of a handler to its end, without its waits for the answers of other
	// entities. So it is processor time unless handlers wait for something else, or for a
	// processor.
	HandlerMicros uint64
	// MilliCommands are the commands that have had a turn, in thousandths per second.
	MilliCommands uint64
	// MilliWaiting is the average number of commands that wait in mailboxes, in thousandths.
	MilliWaiting uint64
	// JournalBytes is the size of the records that the journal received, per second, without
	// snapshots.
	JournalBytes uint64
	// Entities are in memory, and Bytes is their size as far as they tell it.
	Entities, Bytes uint64
}

// maxLoad bounds each part of a load that one region reports for itself or for one shard, so that
// no sum of such loads overflows.
const maxLoad = 1 << 40

// Plus returns the sum of two loads.
func (l Load) Plus(o Load) Load {
	return Load{
		l.HandlerMicros + o.HandlerMicros, l.MilliCommands + o.MilliCommands, l.MilliWaiting + o.MilliWaiting,
		l.JournalBytes + o.JournalBytes, l.Entities + o.Entities, l.Bytes + o.Bytes,
	}
}

// Minus takes a load away that is a part of the sum.
func (l Load) Minus(o Load) Load {
	return Load{
		l.HandlerMicros - o.HandlerMicros, l.MilliCommands - o.MilliCommands, l.MilliWaiting - o.MilliWaiting,
		l.JournalBytes - o.JournalBytes, l.Entities - o.Entities, l.Bytes - o.Bytes,
	}
}

// Bounded returns the load with no part above what a region can have.
func (l Load) Bounded() Load {
	return Load{
		min(l.HandlerMicros, maxLoad), min(l.MilliCommands, maxLoad), min(l.MilliWaiting, maxLoad),
		min(l.JournalBytes, maxLoad), min(l.Entities, maxLoad), min(l.Bytes, maxLoad),
	}
}

// Counted returns the load with at most ten waiting commands for each processor of other load, so that
// one entity with a full mailbox does not outweigh a region.
func (l Load) Counted() Load {
	l.MilliWaiting = min(l.MilliWaiting, l.work()/100)
	return l
}

// Weight returns what a load costs in microseconds of a processor per second, about as the strategy
// "load" counts it by default (allocation.DefaultConfig). It decides which shards a region reports one
// by one, and the order in which operators see shards.
func (l Load) Weight() uint64 { return l.work() + 100*l.Counted().MilliWaiting }

// work is the weight without the waiting.
func (l Load) work() uint64 {
	return l.HandlerMicros + l.MilliCommands/50 + l.JournalBytes/100 + l.Entities/10 + l.Bytes/4096
}

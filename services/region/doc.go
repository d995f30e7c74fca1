// Package region is the pure core of the region service: the state machine
// that takes shards, guards their door, hands them off, and runs their entities
// through package turn.
//
// # A shard's life in a region
//
// HostShard(e) → Claim(e) in the journal → serving: the door is open for
// commands routed at exactly e → HandOff(e): what was accepted is finished, the
// entities stop, the appends settle → the floor of the shard is e+1, and
// ShardStopped(e) is answered. A HostShard below the floor is refused: a late
// repeat must not revive a shard that was let go.
//
// Whatever shows the shard at a higher epoch (a table row, a command, the
// fence) stops it at once.
//
// # What this does not do
//
// It opens no connection, writes no disk and runs no user code. It does not
// trust its own picture of ownership: the journal's fence decides.
package region

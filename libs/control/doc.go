// Package control defines the messages of the control plane. With these messages, coordinators,
// regions and gateways agree on which region hosts which shard. The package does not define the
// commands of clients, which travel over links.
//
// # Who sends what to whom
//
// Each line below shows a sender, a message and the receiver. ◀ marks an answer. The right column has the
// time of the message, and how long the sender repeats it.
//
// A region watches the route table, finds the active coordinator in this way, and registers there:
//
//	region       WatchTable        coordinator   after every answer, and after a timeout
//	             ◀ TableChanged                  as soon as the table is newer than the region's copy,
//	                                             at the latest after about a second
//	             ◀ NotActive                     at once, from a standby. While the lease of the
//	                                             active coordinator is about to end, a standby
//	                                             waits up to a second, as it may be the next one
//	region       Register          coordinator   at the region's start, and in every new term; repeated
//	                                             until RegisterAck. Until the first RegisterAck,
//	                                             Register also reports how the previous process of
//	                                             this region has ended
//	             ◀ RegisterAck
//	             ◀ NotActive                     from a standby, or from a coordinator that cannot
//	                                             answer yet; the region asks again
//	region       CountDue          coordinator   after RegisterAck; repeated until no shard is due. A
//	                                             shard is due if it is about to come to the region
//	                                             because of a rollout
//	             ◀ DueAck
//	             ◀ NotActive                     as for Register
//
// A region also reports the loads of its shards. Coordinators that place shards by load use the reports:
//
//	region       ReportLoad        coordinator   after RegisterAck, and some seconds after every
//	                                             answer. The report has the loads that have changed.
//	                                             If the last report was not answered, or if the term
//	                                             is new, the report has all loads
//	             ◀ LoadAck
//	             ◀ NotActive                     as for Register
//
// A gateway watches the table, too. From time to time, its WatchTable carries a [Card]. A Card describes
// how the clients of the gateway have fared since the last Card. If the call gets lost, the gateway does
// not send its Card again. While no coordinator is alive, the gateway asks a region for the region's copy
// of the table. If a shard has no owner, a gateway asks the coordinator to allocate the shard. So does a
// region whose entities send commands. Below, "router" is a gateway or such a region:
//
//	gateway      WatchTable        coordinator   as for a region
//	gateway      WatchTable.Copy   region        repeated until a coordinator answers
//	             ◀ TableChanged                  at once
//	router       GetShardHome      coordinator   repeated until no command waits for the shard.
//	                                             There is no answer, because the table shows the new
//	                                             owner
//	router       FindShards        region        to the owner that the row names, whenever GetShardHome
//	                                             is sent. A region may serve the shard before a
//	                                             coordinator has said so. The sender has at most one
//	                                             open call to each region
//	             ◀ ShardsFound                   at once
//
// A coordinator gives a shard to a region, and takes it back:
//
//	coordinator  HostShard         region        repeated until ShardStarted, until HostRefused, or until
//	                                             the row changes. If a region has kept the states of
//	                                             the entities, HostShard names that region
//	region       ShardStarted      coordinator   when the region has claimed the shard, or has found
//	                                             its fence damaged; once more for each later HostShard
//	region       HostRefused       coordinator   once for each HostShard that the region refuses. Also
//	                                             when the region has stopped a shard whose fence has
//	                                             another epoch; repeated until the row has a higher epoch
//	coordinator  HandOff           region        repeated until ShardStopped, or until the row changes.
//	                                             HandOff may name the successor, the successor's
//	                                             epoch, and the table that the successor must know
//	region       ShardStopped      coordinator   when the region has stopped the shard; once more for
//	                                             each later HandOff
//	region       HostShard         successor     when the region has stopped the shard, if HandOff has
//	             with Released                   named the successor; repeated until HostRefused, or
//	                                             until the region knows a row of the shard with a
//	                                             higher epoch
//	successor    ShardStarted      region        as to a coordinator; the successor sends it to the
//	                                             active coordinator, too
//	successor    HostRefused       region        as to a coordinator, with the newest row that the
//	                                             successor knows; the successor sends HostRefused to
//	                                             the active coordinator, too
//
// A region that leaves asks the coordinator to take its shards. A region whose journal does not answer
// reports this to the coordinator:
//
//	region       GracefulShutdown  coordinator   repeated until an answer counts no remaining shard
//	             ◀ ShutdownAck
//	region       JournalReport     coordinator   at every change; repeated until the journal answers
//
// # One-way messages and calls
//
// A message is either one-way or a call. The sender of a call waits for an answer. [Kinds] lists which
// messages are calls. Every message may get lost. A one-way message may also arrive twice. If a message
// must arrive, the core that has sent it repeats it, as listed above. No other layer repeats messages.
// One-way messages from one process to another arrive in the order in which they were sent. An answer may
// arrive before or after other messages.
//
// If the receiver does not know the kind of a one-way message, it ignores and logs the message. It
// still processes the messages that came in the same request. The receiver refuses a call of a kind
// that it does not know.
//
// The receiver learns the process that has sent a message, and its incarnation. A message to a region names
// the receiving incarnation. Other incarnations refuse the message.
//
// # Terms and epochs
//
// Each message of a coordinator carries the coordinator's term. A region ignores a message if its term is
// below the highest term that the region has seen. HostShard with Released is an exception. It carries
// the term of the HandOff that has caused it. The coordinator of that term stored a fact before it sent
// the HandOff, and later coordinators know this fact. So a region obeys HostShard with Released in later
// terms, too. If the region knows a row of the shard with a higher epoch, it ignores the message.
//
// A message about a shard carries an epoch. At any other epoch, the message has no meaning.
//
// # What this does not do
//
// This package neither sends nor encodes messages. Package wire encodes them as protobuf, and package
// rpc carries them. This package does not validate names and numbers. A core that gets an invalid
// message ignores or refuses it.
package control

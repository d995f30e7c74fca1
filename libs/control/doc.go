// Package control is the vocabulary of the control plane: the messages by which
// coordinators, regions and gateways agree on who hosts which shard. Commands of
// clients are not part of it; they travel over links.
//
// # Who sends what to whom
//
// A region finds the active coordinator by watching the table, and announces itself:
//
//	region       WatchTable        coordinator   repeated after every answer, and after a timeout
//	             ◀ TableChanged                  as soon as the table is newer than the region's copy,
//	                                             at the latest after about a second
//	             ◀ NotActive                     at once, from a standby
//	region       Register          coordinator   at its start and in every new term; repeated until
//	                                             RegisterAck
//	             ◀ RegisterAck
//	             ◀ NotActive                     from a standby, or from a coordinator that must be
//	                                             asked again later
//	region       CountDue          coordinator   once registered; repeated until no shard is due, that
//	                                             is, about to come to the region because of a rollout
//	             ◀ DueAck
//	             ◀ NotActive                     as with Register
//
// It also reports the loads of its shards, for those coordinators that place shards by load:
//
//	region       ReportLoad        coordinator   once registered, and again some seconds after every
//	                                             answer. It has what has changed, or everything if
//	                                             the report before was not answered, or if the term
//	                                             is new
//	             ◀ LoadAck
//	             ◀ NotActive                     as with Register
//
// A gateway watches the table too. Now and then, its call has a [Card]: how its clients have fared
// since its last card. If the call gets lost, that card is not sent again. While no coordinator is
// alive, the gateway asks a region instead, for the region's copy of the table. Gateways, and regions whose entities send
// commands, ask the coordinator to allocate shards that have no owner:
//
//	gateway      WatchTable        coordinator   as above
//	gateway      WatchTable.Copy   region        repeated until a coordinator answers
//	             ◀ TableChanged                  at once
//	either       GetShardHome      coordinator   from a gateway or a region; repeated until no
//	                                             command waits for the shard. It is not answered:
//	                                             the table shows the new owner
//	either       FindShards        region        whenever GetShardHome is sent, to the owner that the row
//	                                             names: the shard may be served although no
//	                                             coordinator has said so yet. At most one such call
//	                                             to a region is open at a time
//	             ◀ ShardsFound                   at once
//
// A shard is given to a region and taken back:
//
//	coordinator  HostShard         region        repeated until ShardStarted or HostRefused, or until
//	                                             the row changes. It names the region that has kept
//	                                             the states of the entities, if one has
//	region       ShardStarted      coordinator   when it has claimed the shard, or found its fence
//	                                             damaged; repeated once for each later HostShard
//	region       HostRefused       coordinator   once for each HostShard that it refuses
//	coordinator  HandOff           region        repeated until ShardStopped, or until the row changes.
//	                                             It may name the successor, and its epoch
//	region       ShardStopped      coordinator   when it has stopped the shard; repeated once for each
//	                                             later HandOff
//	region       HostShard         successor     when it has stopped the shard, if HandOff has named
//	             with Released                   the successor; repeated until the region knows a row of
//	                                             the shard with a higher epoch, or HostRefused
//	successor    ShardStarted      region        as to a coordinator; also to the active coordinator
//	successor    HostRefused       region        as to a coordinator; also to the active coordinator
//
// A region that leaves asks for its shards to be taken. A region whose journal does not
// answer reports that:
//
//	region       GracefulShutdown  coordinator   repeated until the answer says that no shard remains
//	             ◀ ShutdownAck
//	region       JournalReport     coordinator   at every change; repeated until the journal answers
//
// # One-way messages and calls
//
// A message is sent one way, or it is a call whose sender waits for an answer; [Kinds]
// says which. Each may get lost, and each one-way message may arrive twice. A message
// that must arrive is repeated by the core that sent it, as above; no other layer repeats
// messages. One-way messages from one process to another that arrive do so in the order in
// which they were sent. Answers are not ordered relative to other messages.
//
// A one-way message of a kind that the receiver does not know is ignored and logged; the
// messages that came with it are processed. A call of an unknown kind is refused.
//
// The receiver learns which incarnation of which process has sent a message. A message
// to a region names the incarnation for which it is meant, and other incarnations refuse it.
//
// # Terms and epochs
//
// Messages of a coordinator carry its term. A region ignores messages of a term below the highest
// term that it has seen. HostShard with Released is an exception. It carries the term of the HandOff
// that caused it, and rests on a fact of that term. Coordinators of later terms know that fact, too.
// So a region obeys the message in later terms as well, unless it knows a row of the shard with a
// higher epoch. Messages about a shard carry an epoch, and mean nothing at another epoch.
//
// # What this does not do
//
// It neither sends nor encodes: see package wire for the messages as protobuf, and
// package controlrpc for what carries them. It does not validate names and numbers: the
// core that gets a message ignores or refuses invalid ones.
package control

// Package postgres is a journal in a PostgreSQL database (14 or later), shared
// by processes on many machines.
//
// A batch is one statement, which is a transaction of its own: one round trip that ends in COMMIT. It
// calls functions (schema.sql). Most of a batch are appends that have only records. The function
// roost.append_records takes these: it locks the fences (FOR SHARE), and then each entity is checked
// in the update that advances it, or by the index that a new one is inserted into, and each command by
// the index that its record is inserted into. It commits all of them or none. If one of them would be
// refused, or may have to be, it fails, and the backend lets roost.commit_batch decide the whole batch,
// in a second round trip.
//
// The function roost.commit_batch takes everything else. It locks the fence rows of the shards
// that the batch writes to (FOR SHARE, or FOR UPDATE if the batch claims any shard), then the
// entities. Then it decides like [journal.Decide], and writes the operations that succeed. If a
// batch needs both functions, append_records is called first and locks all fences.
//
// All batches lock fences in the same order. They lock entities in the same order too, but for a
// batch that needs both functions: if it and one of a former owner wait for each other, the server
// ends one of them, and the journal tries that again. A process that is paused or cut off holds no lock: locks
// live only as long as the statement runs. A batch that has only fence reads is a query of the table: it takes
// no lock, and writes nothing.
//
// # Outcomes
//
// An ERROR of the server means that the transaction was rolled back: nothing is committed. If
// the reason is a full disk (SQLSTATE 53100), the operations are refused as full. If it is a
// damaged page, the commit fails with [journal.ErrCorrupt]; the server finds most damaged pages
// only if its data checksums are enabled. A batch that got no connection is not committed
// either. After any other failure between sending the batch and the server's ReadyForQuery, the
// outcome is unknown; this includes the FATAL of a server that shuts down. The pool then dials
// again. A batch whose connection has gone is ended by the server after Config.CommitTimeout at
// the latest.
//
// # Silence
//
// A connection may die silently: its machine lost power, a firewall dropped it. Every
// request has a deadline (Config.CommitTimeout, Config.LoadTimeout); when it passes, the
// connection is closed at once, together with the pool's idle ones. A connection that was
// idle for a second is pinged before it is used; the ping takes at most a tenth of the
// request's deadline. TCP keepalive and user timeout detect dead connections that are not
// in use.
//
// # Roles
//
// schema.sql makes the schema, and the role that runs schema.sql owns it. This is usually an operator's
// role. If there is no schema, [Open] runs schema.sql itself, provided that its role may create a
// schema; then this role is the owner. roles.sql makes two roles. The role roost_service is for
// services. It may read, and may write only through the functions: no service may change or delete an
// event, even if its password leaks. The role roost_reader may only read: that is all that [OpenReader]
// needs.
//
// # What this does not do
//
// It promises what the server promises. Each transaction raises synchronous_commit to on where it is lower, and is
// refused while fsync or full_page_writes is off; a commit with a warning, except of numbers of transactions that run
// out, is unknown. Open refuses a standby. A failover to a replica that lags loses the commits that the replica lacks:
// processes that stored one of them end, see marks. Use synchronous replication. The role roost_service prevents events
// from being changed or deleted, but it does not distinguish services: a malicious service can claim shards that it
// does not own, or hold a lock by calling a function inside its own transaction. The files of tables do not shrink:
// autovacuum makes the space of removed rows usable again. Expiring a command id frees no space, because the id stays
// in its record. The schema's name is fixed: one journal per database. A connection pooler must keep a session per
// connection, because settings and prepared statements are used; one that does not is refused, if that is noticed when
// a connection is made.
package postgres

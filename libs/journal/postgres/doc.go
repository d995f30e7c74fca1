// Package postgres is a journal in a PostgreSQL database (14 or later), shared
// by processes on many machines.
//
// A batch is one call of the function roost.commit_batch (schema.sql), which
// is a transaction of its own: one round trip that ends in COMMIT. The function
// locks the fence rows that the batch writes under (FOR SHARE; FOR UPDATE if it
// claims any), then the entities, each in one order for all, decides like
// [journal.Decide], and writes what holds. A process that is paused or cut off
// holds no lock: locks live as long as the function runs. Batches that only
// read fences lock and write nothing.
//
// # Outcomes
//
// An ERROR of the server is a transaction that was rolled back: not committed,
// or full if the disk is (SQLSTATE 53100). A connection that could not be had
// is not committed too. Everything that comes between sending the batch and the
// server's readiness for the next one is unknown, the FATAL of a server that
// shuts down included. An ERROR about a damaged page is ErrCorrupt; the server
// finds most of them only if the cluster has data checksums. The pool dials
// again; the server ends an orphaned batch after Config.CommitTimeout at the
// latest.
//
// # Silence
//
// A connection may die without a word: its machine lost power, a firewall forgot
// it. Whatever waits for an answer has a deadline (Config.CommitTimeout,
// Config.LoadTimeout); then the connection is closed at once and the pool's idle
// ones with it. A connection that lay idle for a second is asked whether it is
// alive before it is used, for a tenth of that time. TCP's keepalive and user
// time-out find what nobody uses.
//
// # Roles
//
// schema.sql makes the schema, as its owner; [Open] does it by itself if there
// is none and it may. roles.sql makes the role roost_service, which may read,
// and write through the functions only: no service may change or delete an
// event, whoever got hold of its password.
//
// # What this does not do
//
// It promises what the server promises: Open refuses a server with fsync or
// synchronous_commit off, but a failover to a replica that lags loses what it
// lacks; use synchronous replication for that. The role keeps events as they
// are; it does not tell services apart, and one that is up to no good can claim
// what is not its own or hold a lock by calling a function inside a transaction
// of its own. Tables never shrink, except for
// dropped command ids. The schema's name is fixed: one journal per database.
// A pooler between must keep a session per connection, as prepared statements
// are used.
package postgres

// Package sqlstore keeps lease records in a table of a SQL database. That
// is SQLite, in a file of its own: [OpenSQLite], or PostgreSQL, in a schema of
// its own: [OpenPostgres].
//
// Get and Swap are one statement each, so a Swap is one transaction in one
// round trip, and no lock waits for a client. The statements use what SQLite
// and PostgreSQL have in common; what differs (driver, connection, making the
// table) is in one file per database.
//
// PostgreSQL is the server of one's choice, also the journal's: no statement
// waits for a client while it holds a lock. The role needs to make the schema
// roost_lease once, or somebody does it for it and grants SELECT, INSERT and
// UPDATE on roost_lease.lease.
//
// A SQLite lease file is never the journal's file: a journal writer that is stopped
// in the middle of a transaction must not keep others from taking over.
//
// # What this does not do
//
// SQLite locks work between the processes of one machine; over a network file
// system they do not, and this package cannot tell. A failover of PostgreSQL to
// a replica that lags forgets what it lacks; use synchronous replication.
package sqlstore

// Package sqlstore keeps lease records in a table of a SQL database: SQLite, in a file of
// its own ([OpenSQLite]), or PostgreSQL, in a schema of its own ([OpenPostgres]).
//
// Get and Swap are one statement each, so a Swap is one transaction in one
// round trip, and no lock is held while the server waits for a client. The statements use
// what SQLite and PostgreSQL have in common. What differs (driver, connection, creation of
// the table) is in one file per database.
//
// The PostgreSQL server may be the journal's, because no lock is held while the server
// waits for a client. The role of the connection needs the right to create the schema
// roost_lease once. Or another role creates the schema, and grants SELECT, INSERT and
// UPDATE on roost_lease.lease to the role of the connection.
//
// A SQLite lease file must not be the journal's file: a journal writer that is stopped in
// the middle of a transaction would keep others from taking over.
//
// # What this does not do
//
// SQLite's locks work between the processes of one machine. They do not work on a network
// file system, and this package cannot detect one. A failover of PostgreSQL to a replica
// that lags loses writes; use synchronous replication.
package sqlstore

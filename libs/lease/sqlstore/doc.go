// Package sqlstore keeps lease records in a table of a SQL database: SQLite, in a file of
// its own ([OpenSQLite]), or PostgreSQL, in a schema of its own ([OpenPostgres]).
//
// Get and Swap are one statement each. So a Swap is one transaction in one round trip, and no
// lock is held while the server waits for a client. The statements use what SQLite and
// PostgreSQL have in common. What differs (driver, connection, creation of the table) is in
// one file per database.
//
// Because the lease has a schema of its own, the PostgreSQL server may also have the journal. The
// schema roost_lease is created at the first start, so the role of the connection must be allowed
// to create it. Or another role creates the schema (the error has the statements), and grants the role of the
// connection USAGE of the schema, and SELECT, INSERT and UPDATE on roost_lease.lease. A trigger makes each write durable, or refuses it.
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

// Package sqlstore keeps lease records in a table of a SQL database. Today
// that is SQLite, in a file of its own: [OpenSQLite].
//
// Get and Swap are one statement each, so a Swap is one transaction in one
// round trip, and no lock waits for a client. The statements use what SQLite
// and PostgreSQL have in common; what differs (driver, connection, making the
// table) is in one file per database.
//
// The lease file is never the journal's file: a journal writer that is stopped
// in the middle of a transaction must not keep others from taking over.
//
// # What this does not do
//
// SQLite locks work between the processes of one machine; over a network file
// system they do not, and this package cannot tell.
package sqlstore

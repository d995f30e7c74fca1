// Package spread makes one journal of several databases: it combines the backends of other packages. All
// data of an entity type is in one of them.
//
// The databases have numbers. The first one, 1, is the database that journal.url names. It has what the cluster as a
// whole stores: the facts of the journal, the coordinators' facts, and in its [Note] which types are in which database.
// That is decided when a type is first declared ([Note.Place]), and never changes. So everything that one transaction
// is about (a shard's fence, its entities, its wake-ups and sends) is in one database, and no transaction needs two.
//
// A database keeps a note of its own number, and of the generation of the first one. A database with another number,
// of another cluster, or of another restore is refused.
//
// # A database that does not answer
//
// If an operation on a database fails, a probe asks the database for its facts. While that fails, the database is down:
// its operations fail at once, with an error that has its number, until a probe succeeds. The other databases continue.
// The first one must answer when a process starts; another one need not, if it was used before.
//
// # Terms
//
// The highest epoch ([journal.Facts.MaxEpoch]) is the highest one in all databases that answer. The first one alone
// would do: before a coordinator assigns an epoch, it claims the shard of its facts, which is there, at its term.
//
// # Repairs
//
// A repair is one transaction, so its audit line is in the database of the entity. [Backend.History] reads the
// lines of all databases.
//
// # What this does not do
//
// It moves nothing from one database to another, and has no transaction over two of them. It does not divide a type. A handle
// that only reads needs all databases.
package spread

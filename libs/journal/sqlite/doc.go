// Package sqlite is a journal in one SQLite file, shared by the processes of
// one machine.
//
// The file is in WAL mode with synchronous=FULL: every commit is on the disk before it is
// reported. Each [Backend] has one connection that writes and a few that read concurrently.
//
// # Writers
//
// Writers of several processes take turns. Each takes an advisory lock on a second file (path +
// "-turn"), waits while holding it for the lock on a third one (path + "-write"), and then takes
// SQLite's own write lock. Then it releases the first lock, and after its transaction the other two.
// So only one writer waits for the active one, which cannot overtake it, and the kernel wakes it at
// once. SQLite's own waiting promises neither. If its turn does not come within a second, a writer continues
// without it: the kernel may have given the turn to a process that is paused. Until that process continues or dies,
// the others compete for SQLite's lock.
//
// When its turn comes, a writer looks whether another connection has committed since its own last
// commit. If none has, it still knows the fences and heads of entities that it has read or written, and
// reads only what it does not know.
//
// A [Reader] takes none of these locks. It must be allowed to read the file and its log (the WAL,
// path + "-wal"), and to write the index of the log (path + "-shm"), in which readers mark the
// part that they read.
//
// # Another file
//
// A process continues to use the file that it has opened, even if that file is moved. No other
// process would find the data stored there. So transactions look at the path, once a second, and
// the process stops if the path leads to another file or to none.
//
// # An older file
//
// A copy may be put over the file, over its log (the WAL), or over both, while processes have it open or none runs. So
// the header of the file has a mark that only rises (user_version). A commit raises it if the last raise by its process
// is at least a second ago. A file of its own (path + "-mark") has the highest mark that transactions have seen, and
// the highest that the main file has without its log. The second one recognizes an older main file under a newer log. A
// journal that is behind is refused, also after a restart. See docs/running/repair.md for the bound.
//
// # Layout
//
//	meta     the cluster's name and the format
//	type     number of shards per entity type
//	fence    epoch and owner per shard
//	entity   per entity: its number, which is shorter than its id and which the other tables
//	         use; the newest time in an expired command id; the sequence number
//	         of its snapshot
//	record   (entity number, sequence number) → record, checksummed
//	command  (entity number, hash of the command id, sequence number)
//	snapshot the newest snapshot per entity, checksummed
//	wake     wake-ups: why and when an entity must come to life
//	send     state of each command that a record sends to another entity
//
// The tables are clustered by entity number, so that what is loaded together
// lies together. The command id itself is only in the record: the hash finds
// the record, and the id in the record decides.
//
// Every page of the file ends in a checksum, and every page that is read from the log is
// checked too: see [VFS], the only way to open the file.
//
// # What this does not do
//
// It is for one machine and a local file system: never put the file on a network share. A process
// that is paused inside a transaction stops the other writers until it continues or dies; nothing
// wrong is written meanwhile. The pages of removed rows are used again. Only purges and trims give
// pages back to the file system, a bounded number of pages per batch.
//
// If the log was not closed, because the machine stopped for example, SQLite reads it up to
// the first damaged frame. Usually that frame belongs to a commit that was cut off. But a
// frame that was damaged after its commit looks the same; then the commits after that frame are
// lost.
package sqlite

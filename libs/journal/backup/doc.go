// Package backup implements the format of backup files, and reports the progress of a backup or a
// restore.
//
// A backup file has a magic line and a version, then a sequence of chunks: a [Header] that
// describes the backup, the parts, and an end. A part is a name and a stream of bytes that only
// the store understands. Every chunk has its number and a checksum, and the end has the number of
// bytes and a hash of all of them. So a file that was cut off, changed or put together from two
// is noticed. Nothing is held in memory but one chunk.
//
// A journal of several databases has a header with the number of each of them, in front of its parts.
//
//	file   = "roost backup" LF version:u32 {chunk}
//	chunk  = kind:u8 length:u32 payload checksum:u32
//	kinds  = header (JSON), part (its name), data, end (JSON)
//
// Numbers are big-endian. The checksum is CRC-32C of [journal.Mark], the number of the chunk, as u64, its kind, its
// length and its payload. The end has the SHA-256 of the payloads before it.
//
// # What this does not do
//
// It encrypts and compresses nothing: pipe a backup through the tool of your choice. A file whose
// checksums hold may still be forged, because the checksums need no secret: keep backups where only you can write.
// What is in the parts, and how it is put back, is the business of the store (sqlite, postgres).
package backup

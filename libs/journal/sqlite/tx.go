package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// expireEvery is after how many records of an entity its old dedupe entries are
	// expired; every snapshot expires them as well.
	expireEvery = 1024
	// expireBatch bounds how many entries are dropped at a time: more than were added since
	// the one before.
	expireBatch = 2 * expireEvery
)

// addEntitySQL gives an entity a number that no other one has or had: a process that remembers a
// number may have missed that its entity was purged.
const addEntitySQL = `INSERT INTO entity (id, type, name, dropped) VALUES (1 + max(
	ifnull((SELECT max(id) FROM entity), 0), ifnull((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'purged'), 0)), ?, ?, ?)`

func addEntity() string {
	// Invariant: in SQLite, each entity has a number. Nothing is stored under the number of another entity.
	// Guarded by: `sqlite`: numbers are never reused. A cached number is compared with the entity's name.
	// Mutants: number-reuse, cached-number
	//mutant:do number-reuse return "INSERT INTO entity (type, name, dropped) VALUES (?, ?, ?)"
	return addEntitySQL
}

const bodySQL = "SELECT body FROM record WHERE entity = ? AND seq = ?"

type writeStmts struct {
	begin, commit, rollback                         *stmt
	opened                                          *stmt
	fence, setFence                                 *stmt
	entity, addEntity, named, removeEntity          *stmt
	expired, setExpired, setPurged                  *stmt
	remains, removeRecord, setLooked, clearLooked   *stmt
	marks, setMarks, trimmable, setBody, waking     *stmt
	isRemembered                                    *stmt
	head, find, body                                *stmt
	addRecord, addCommand, snapshot, setSnapshotSeq *stmt
	dropSnapshot, setLife                           *stmt
	expireHead, expireRows, dropCommand, setKept    *stmt
	countCommands                                   *stmt
	wake, setWake, nextWake, removeWake             *stmt
	removeWakes, removeOthers, endLife              *stmt
	addSends, sends, setStates, removeSends         *stmt
}

var addRecordSQL = "INSERT INTO record (entity, seq, age, writer, elapsed, body, reply) VALUES (?, ?, ?, ?, ?, ?, ?)"

func (s *writeStmts) statements() []writeStatement {
	return []writeStatement{
		{&s.begin, "BEGIN IMMEDIATE"},
		{&s.commit, "COMMIT"},
		{&s.rollback, "ROLLBACK"},
		{&s.opened, openedSQL},
		{&s.fence, "SELECT epoch, owner FROM fence WHERE type = ? AND shard = ?"},
		{&s.setFence, "INSERT INTO fence (type, shard, epoch, owner) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner"},
		{&s.entity, "SELECT id FROM entity WHERE type = ? AND name = ?"},
		{&s.named, "SELECT EXISTS (SELECT 1 FROM entity WHERE id = ? AND type = ? AND name = ?)"},
		{&s.addEntity, addEntity()},
		{&s.marks, "SELECT life, cut, stripped, swept, (SELECT max(seq) FROM record WHERE entity = ?1) FROM entity WHERE id = ?1"},
		{&s.setMarks, "UPDATE entity SET cut = ?, stripped = ?, swept = ? WHERE id = ?"},
		{&s.trimmable, `SELECT r.seq, r.body, EXISTS (SELECT 1 FROM send s WHERE s.entity = r.entity AND s.seq = r.seq)
			FROM record r WHERE r.entity = ? AND r.seq > ? AND r.seq <= ? ORDER BY r.seq LIMIT ?`},
		{&s.setBody, "UPDATE record SET body = ? WHERE entity = ? AND seq = ?"},
		{&s.waking, "SELECT DISTINCT seq FROM wake WHERE entity = ?"},
		{&s.isRemembered, "SELECT EXISTS (SELECT 1 FROM command WHERE entity = ? AND hash = ? AND seq = ?)"},
		{&s.head, `SELECT e.snapshot, e.life, e.cut, e.dropped, e.writer <> 0, ifnull(r.seq, 0),
			iif(e.writer <> 0, e.age, ifnull(r.age, 0)), iif(e.writer <> 0, e.writer, ifnull(r.writer, 0)), iif(e.writer <> 0, e.elapsed, ifnull(r.elapsed, 0)),
			EXISTS (SELECT 1 FROM command WHERE entity = ?1 AND hash = ?2)
			FROM entity e LEFT JOIN record r ON r.entity = e.id AND r.seq = (SELECT max(seq) FROM record WHERE entity = ?1)
			WHERE e.id = ?1 AND e.type = ?3 AND e.name = ?4`},
		{&s.expired, "SELECT forgotten FROM fence WHERE type = ? AND shard = ?"},
		{&s.setExpired, "UPDATE fence SET forgotten = max(forgotten, ?) WHERE type = ? AND shard = ?"},
		{&s.remains, `SELECT r.seq, r.age, r.body, EXISTS (SELECT 1 FROM send s WHERE s.entity = r.entity AND s.seq = r.seq)
			FROM record r WHERE r.entity = ? AND r.seq <= ? ORDER BY r.seq LIMIT ?`},
		{&s.removeRecord, "DELETE FROM record WHERE entity = ? AND seq = ?"},
		{&s.removeEntity, "DELETE FROM entity WHERE id = ?"},
		{&s.setPurged, "INSERT INTO meta (key, value) VALUES ('purged', ?) ON CONFLICT DO UPDATE SET value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))"},
		{&s.setLooked, "UPDATE entity SET age = ?, writer = ?, elapsed = ?, dropped = ? WHERE id = ?"},
		{&s.clearLooked, "UPDATE entity SET writer = 0 WHERE id = ?"},
		{&s.find, "SELECT seq FROM command WHERE entity = ? AND hash = ?"},
		{&s.body, bodySQL},
		{&s.addRecord, addRecordSQL},
		{&s.addCommand, "INSERT INTO command (entity, hash, seq) VALUES (?, ?, ?)"},
		{&s.snapshot, "INSERT INTO snapshot (entity, body) VALUES (?, ?) ON CONFLICT DO UPDATE SET body = excluded.body"},
		{&s.setSnapshotSeq, "UPDATE entity SET snapshot = ? WHERE id = ?"},
		{&s.setLife, "UPDATE entity SET life = ?, snapshot = 0 WHERE id = ?"},
		{&s.dropSnapshot, "DELETE FROM snapshot WHERE entity = ?"},
		{&s.expireHead, "SELECT kept, dropped FROM entity WHERE id = ?"},
		{&s.expireRows, "SELECT seq, age, body FROM record WHERE entity = ? AND seq > ? ORDER BY seq LIMIT ?"},
		{&s.dropCommand, "DELETE FROM command WHERE entity = ? AND hash = ? AND seq = ?"},
		{&s.countCommands, "SELECT count(*) FROM command WHERE entity = ? AND seq > ?"},
		{&s.wake, "SELECT seq, number FROM wake WHERE entity = ? AND kind = ? AND name = ?"},
		{&s.setWake, `INSERT INTO wake (entity, kind, name, number, due, period, seq, type, shard, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET number = excluded.number, due = excluded.due, period = excluded.period, seq = excluded.seq, shard = excluded.shard`},
		{&s.nextWake, "UPDATE wake SET due = ?, number = ? WHERE entity = ? AND kind = ? AND name = ?"},
		{&s.removeWakes, "DELETE FROM wake WHERE entity = ?"},
		{&s.removeOthers, "DELETE FROM wake WHERE entity = ? AND kind <> ?"},
		{&s.endLife, `INSERT INTO wake (entity, kind, name, number, due, period, seq, type, shard, hash) VALUES (?, ?, ?, 0, ?, 0, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET number = excluded.number, due = min(due, excluded.due), seq = excluded.seq, shard = excluded.shard`},
		{&s.removeWake, "DELETE FROM wake WHERE entity = ? AND kind = ? AND name = ?"},
		{&s.addSends, "INSERT INTO send (entity, seq, done, type, shard, hash, sends, pending) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
		{&s.sends, "SELECT done, sends FROM send WHERE entity = ? AND seq = ?"},
		{&s.setStates, "UPDATE send SET done = ?, pending = ?, dead = ? WHERE entity = ? AND seq = ?"},
		{&s.removeSends, "DELETE FROM send WHERE entity = ? AND seq = ?"},
		{&s.setKept, "UPDATE entity SET kept = ?, dropped = ? WHERE id = ?"},
	}
}

type statement struct {
	to    **sql.Stmt
	query string
}

type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func prepareAll(ctx context.Context, p preparer, all []statement) error {
	for _, s := range all {
		var err error
		if *s.to, err = p.PrepareContext(ctx, s.query); err != nil {
			return fmt.Errorf("prepare %q: %w", s.query, err)
		}
	}
	return nil
}

// closeStatements closes the statements that were prepared on a [sql.Conn]: closing the
// connection does not. A connection with open statements stays open inside SQLite, with its
// files and the shared lock on them, so that no connection ever is the last one to close the
// journal.
func closeStatements(all []statement) []error {
	var errs []error
	for _, s := range all {
		if *s.to != nil {
			errs = append(errs, (*s.to).Close())
		}
	}
	return errs
}

// tx implements [journal.Tx] for one transaction.
type tx struct {
	backend *Backend
	s       *writeStmts
	now     journal.Moment
	stamp   journal.Stamp // of the entity whose head was read last
	looked  bool          // the stamp was set by a purge
	// added are the numbers of entities that this transaction has made or looked up: they are
	// cached only when it is committed.
	added map[sharding.Entity]int64
	free  int // how many pages may be given back
	// body and reply are memory for the stored forms.
	body, reply []byte
}

func newTx(d *Backend) *tx {
	return &tx{backend: d, s: &d.write, now: d.clock.Now()}
}

// cacheIDs caches the numbers of new entities. It is called after the commit.
func (t *tx) cacheIDs() {
	if len(t.backend.ids)+len(t.added) > idCache {
		clear(t.backend.ids)
	}
	for e, id := range t.added {
		t.backend.ids[e] = id
	}
}

// Fence implements [journal.Tx].
func (t *tx) Fence(shard sharding.ShardID) (sharding.Fence, error) {
	f, ok := t.backend.cache.fences[shard]
	if ok {
		return f, nil
	}
	var epoch, owner int64
	err := t.s.fence.QueryRow(string(shard.Type), shard.Index).Scan(&epoch, &owner)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return f, err
	}
	f = sharding.Fence{Epoch: sharding.Epoch(epoch), Owner: sharding.NodeUID(owner)}
	t.backend.cache.setFence(shard, f)
	return f, nil
}

// Head implements [journal.Tx].
func (t *tx) Head(entity sharding.Entity, records []sharding.Record) (journal.Head, error) {
	var h journal.Head
	var first int64
	if len(records) > 0 {
		first = commandHash(records[0].Command)
	}
	id, maybe, err := t.readHead(entity, first, &h)
	if err != nil || id == 0 {
		return h, err
	}
	for i := range records {
		if h.Duplicate || i == 0 && !maybe || records[i].Command == "" {
			continue
		}
		if h.Duplicate, err = t.stored(id, entity, records[i].Command); err != nil {
			return h, err
		}
	}
	return h, nil
}

// readHead reads the row of an entity and its newest record, and returns its number, 0 if there
// is none. maybe: a command with the hash may be stored.
func (t *tx) readHead(entity sharding.Entity, hash int64, h *journal.Head) (id int64, maybe bool, err error) {
	if c, ok := t.backend.cache.heads[entity]; ok {
		*h, t.stamp, t.looked = c.head, c.stamp, c.looked
		t.add(entity, c.id)
		return c.id, true, nil
	}
	t.stamp, t.looked = journal.Stamp{}, false
	id, known := t.added[entity]
	if !known {
		id, known = t.backend.ids[entity]
	}
	if !known {
		if id, err = t.find(entity); err != nil || id == 0 {
			return 0, false, err
		}
	}
	var snapshot, life, cut, dropped, last, by int64
	read := func() error {
		return t.s.head.QueryRow(id, hash, string(entity.Type), string(entity.ID)).Scan(
			&snapshot, &life, &cut, &dropped, &t.looked, &last, &t.stamp.Age, &by, &t.stamp.Elapsed, &maybe)
	}
	err = read()
	//mutant:false cached-number
	if errors.Is(err, sql.ErrNoRows) { // it was purged since the number was cached
		delete(t.backend.ids, entity)
		if id, err = t.find(entity); err != nil || id == 0 {
			return 0, false, err
		}
		err = read()
	}
	if err != nil {
		return id, false, err
	}
	t.add(entity, id)
	t.stamp.Writer = uint64(by)
	h.LastSeq, h.SnapshotSeq, h.Life, h.Dropped = uint64(last), uint64(snapshot), uint64(life), fromMillis(dropped)
	h.Cut = uint64(cut)
	t.backend.cache.setHead(entity, cachedHead{id, *h, t.stamp, t.looked})
	return id, maybe, nil
}

// NewestExpired implements [journal.Tx].
func (t *tx) NewestExpired(shard sharding.ShardID) (time.Time, error) {
	var ms int64
	err := t.s.expired.QueryRow(string(shard.Type), shard.Index).Scan(&ms)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return fromMillis(ms), err
}

// stored reports whether a command is stored: the hash finds candidates, whose
// records decide.
func (t *tx) stored(id int64, entity sharding.Entity, c sharding.CommandID) (bool, error) {
	seqs, err := t.candidates(id, c)
	if err != nil {
		return false, err
	}
	for _, seq := range seqs {
		var body []byte
		if err := t.s.body.QueryRow(id, seq).Scan(&body); err != nil {
			return false, err
		}
		e, err := journal.DecodeRecord(entity, uint64(seq), body)
		if err != nil || e.Record.Command == c {
			// A damaged record may hold the command: refusing it is better than
			// applying it twice.
			return true, nil
		}
	}
	return false, nil
}

func (t *tx) candidates(id int64, c sharding.CommandID) ([]int64, error) {
	rows, err := t.s.find.Query(id, commandHash(c))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var seqs []int64
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return nil, err
		}
		seqs = append(seqs, seq)
	}
	return seqs, rows.Err()
}

// id is the number of an entity, 0 if it has none yet. A number that is cached is checked
// against the name: another process may have purged the entity, and made it anew.
func (t *tx) id(e sharding.Entity) (int64, error) {
	if id, ok := t.added[e]; ok {
		return id, nil
	}
	if id, ok := t.backend.ids[e]; ok {
		var same bool
		if err := t.s.named.QueryRow(id, string(e.Type), string(e.ID)).Scan(&same); err != nil {
			return 0, err
		}
		if same { //mutant:true cached-number
			t.add(e, id)
			return id, nil
		}
		delete(t.backend.ids, e)
	}
	return t.find(e)
}

// find looks an entity up by its name.
func (t *tx) find(e sharding.Entity) (int64, error) {
	var id int64
	err := t.s.entity.QueryRow(string(e.Type), string(e.ID)).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err == nil {
		t.add(e, id)
	}
	return id, err
}

func (t *tx) add(e sharding.Entity, id int64) {
	if t.added == nil {
		t.added = map[sharding.Entity]int64{}
	}
	t.added[e] = id
}

// commandHash returns the hash that the index of command ids has for an id: the first 64 bits of
// SHA-256. Clients choose ids. With a hash that is not cryptographic they could give 30,000 ids of one
// entity the same hash, and each append would then read all these records inside the transaction, while
// the other entities wait. Against this, 64 bits suffice: ids with the same hash cost time, and more
// than a handful of them cannot be computed.
func commandHash(c sharding.CommandID) int64 {
	var id [sharding.MaxCommandIDLen]byte // on the stack
	sum := sha256.Sum256(append(id[:0], c...))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

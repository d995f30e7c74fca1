package cluster

import (
	"database/sql"
	"net/url"
	"os/exec"
	"path/filepath"

	_ "github.com/jackc/pgx/v5/stdlib" // the database/sql driver "pgx"
	_ "modernc.org/sqlite"             // the database/sql driver "sqlite"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/journal/sqlite"
)

// Where a run keeps its journal and its lease.
const (
	onSQLite   = "sqlite"
	onPostgres = "postgres"
)

// journal is the machine of the PostgreSQL server, if processes have networks.
const journal = "journal"

// setUpJournal prepares the journal of a run.
func (r *run) setUpJournal(o *launcher.Options) {
	if r.store == onSQLite {
		r.setUpJournalAt(o, filepath.Join(r.dir, "journal.db"))
		return
	}
	if r.net == nil {
		r.server = postgrestest.Start(r.T)
	} else {
		r.server = postgrestest.StartAt(r.T, postgrestest.Place{
			Address: r.net.Address(journal),
			Start:   func(cmd *exec.Cmd) error { return r.net.Start(journal, cmd) },
		})
	}
	name, err := r.server.NewDatabase()
	r.must(err)
	where := r.server.URL(postgrestest.Superuser, name)
	o.Lease = where
	r.journal(o, where)
	u, err := url.Parse(where)
	r.must(err)
	q := u.Query()
	q.Set("search_path", "roost")
	u.RawQuery = q.Encode()
	r.open("pgx", u.String())
}

// setUpJournalAt prepares a journal in a file.
func (r *run) setUpJournalAt(o *launcher.Options, file string) {
	r.journal(o, (&url.URL{Scheme: "sqlite", Path: file}).String())
	r.must(sqlite.RegisterVFS()) // corruptedRecord writes
	r.reopen(file)
}

// reopen opens the journal in a file, to look into it.
func (r *run) reopen(file string) {
	r.open("sqlite", (&url.URL{Scheme: "file", Path: file, RawQuery: "vfs=" + sqlite.VFS}).String())
}

func (r *run) journal(o *launcher.Options, where string) {
	r.journalURL = where
	for _, role := range []string{launcher.Region, launcher.Coordinator} {
		o.Args[role] = []string{"--journal.url=" + where}
	}
}

func (r *run) open(driver, where string) {
	db, err := sql.Open(driver, where)
	r.must(err)
	r.db = db
	r.Cleanup(func() { _ = db.Close() })
}

// stored reads the records of all lists, without any code of Roost.
func (r *run) stored() (all []history.Stored) {
	r.Helper()
	rows, err := r.db.QueryContext(r.Context(), `SELECT e.name, r.seq, r.body FROM record r JOIN entity e ON e.id = r.entity
		WHERE e.type = 'List' ORDER BY e.name, r.seq`)
	r.must(err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var list string
		var seq int64
		var body []byte
		r.must(rows.Scan(&list, &seq, &body))
		s, err := history.Decode(list, seq, body)
		r.must(err)
		all = append(all, s)
	}
	r.must(rows.Err())
	return all
}

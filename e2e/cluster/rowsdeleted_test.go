package cluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// playRowsDeleted deletes rows of the coordinators by hand while the cluster runs: first the journal heartbeat, while a
// region starts, and then all of them. Each time the active coordinator steps down, a new term begins, and roost cluster doctor
// reports it. In the end all regions are replaced, so that rows that gateways still had would name processes that are
// gone: all entities are there, and a reminder fires although no command comes for its shard.
func playRowsDeleted(l *livingRun) {
	const carts = 24
	later := time.Now().Add(time.Hour).UnixMilli()
	path := func(i int) string { return fmt.Sprintf("/v1/Crowd/deleted-%d/Set", i) }
	set := func(n int) {
		l.each(carts, 4, func(i int) error {
			_, err := l.count(path(i), fmt.Sprint("deleted-", i, "-", n), setting{First: int64(n), Count: 1, At: later})
			return err
		})
	}
	set(0)

	term := l.term()
	l.allowDeath("it is killed, so that another one starts", l.regionNames()...)
	l.kill("region-1")
	l.deleteRows("type = 'roost.coordinator' AND name = 'active'", "")
	l.up()
	term = l.termAfter(term)
	l.found("rows-deleted")
	set(1)

	_, err := l.count("/v1/Crowd/rung/Set", "rung", setting{Count: 1, At: time.Now().Add(30 * time.Second).UnixMilli()})
	l.must(err)
	l.deleteRows("type = 'roost.coordinator'", "DELETE FROM fence WHERE type = 'roost.coordinator'")
	l.termAfter(term)
	l.found("facts-missing")
	l.kill(l.regionNames()...)
	l.up()
	l.stored1("SELECT r.body FROM record r JOIN entity e ON e.id = r.entity WHERE r.seq = 2 AND e.name = %s", "rung")
	set(2)
	l.each(carts, 4, func(i int) error {
		n, err := l.count(strings.TrimSuffix(path(i), "Set")+"Get", "", struct{}{})
		if err == nil && n != 3 {
			err = fmt.Errorf("%s: %d of 3 commands have had an effect", path(i), n)
		}
		return err
	})
}

// deleteRows deletes entities with their records and snapshots, and what another statement says.
func (l *livingRun) deleteRows(where, also string) {
	l.Helper()
	statements := []string{
		"DELETE FROM record WHERE entity IN (SELECT id FROM entity WHERE " + where + ")",
		"DELETE FROM snapshot WHERE entity IN (SELECT id FROM entity WHERE " + where + ")",
		"DELETE FROM entity WHERE " + where,
	}
	if also != "" {
		statements = append(statements, also)
	}
	try := func() error {
		tx, err := l.db.BeginTx(l.Context(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		for _, s := range statements {
			if _, err := tx.ExecContext(l.Context(), s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return tx.Commit()
	}
	for deadline := time.Now().Add(waitLimit); ; l.wait(10 * time.Millisecond) { // a process writes periodically
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			l.Fatal(err)
		}
	}
}

// term returns the term of the active coordinator, or 0.
func (l *livingRun) term() sharding.Term {
	_, term, _ := l.cluster.Active(l.Context())
	return sharding.Term(term)
}

// termAfter waits until a coordinator is active in a higher term.
func (l *livingRun) termAfter(term sharding.Term) sharding.Term {
	l.Helper()
	for deadline := time.Now().Add(2 * waitLimit); ; l.wait(50 * time.Millisecond) {
		if now := l.term(); now > term {
			return now
		}
		if time.Now().After(deadline) {
			l.Fatalf("no coordinator is active in a term above %d", term)
		}
	}
}

// found waits until roost cluster doctor has a finding.
func (l *livingRun) found(name string) {
	l.Helper()
	for deadline := time.Now().Add(waitLimit); ; l.wait(200 * time.Millisecond) {
		says, err := l.tryRoost("cluster", "doctor", "--admin="+strings.Join(l.cluster.Admin(), ","))
		if strings.Contains(string(says), name) {
			return
		}
		if time.Now().After(deadline) {
			l.Errorf("roost cluster doctor does not say %s: %v\n%s", name, err, says)
			return
		}
	}
}

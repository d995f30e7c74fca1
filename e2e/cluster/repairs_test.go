package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/e2e/cluster/load"
)

// TestRepairs damages data behind the back of running clusters under load, and repairs them.
func TestRepairs(t *testing.T) {
	if os.Getenv("E2E") == "" {
		t.Skip("takes minutes: make e2e")
	}
	t.Run("repair-facts", func(t *testing.T) {
		for _, store := range []string{onSQLite, onPostgres} {
			t.Run(store, func(t *testing.T) {
				if !fullSet() {
					t.Skip("not in the short set")
				}
				ran.Store(true)
				(&run{T: t, store: store, rate: 100, allowed: map[string]string{}, retired: map[string]bool{}}).repairFacts()
			})
		}
	})
}

// repairFacts damages a fact while coordinators run; one is paused then. The other one cannot take over.
// The facts are repaired meanwhile, and the paused one continues afterwards.
func (r *run) repairFacts() {
	r.dir = r.TempDir()
	o := launcher.Options{
		Coordinators: 2, Regions: 3, Gateways: 2, Dir: r.dir, Args: map[string][]string{},
		RegionBinary: filepath.Join(binaries(r.T), "list-region"), Changed: r.changed, StartTimeout: waitLimit,
	}
	r.setUpJournal(&o)
	r.cluster = start(r.T, o)
	r.load = load.New(r.cluster.Gateways(), r.rate)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		r.load.Run(r.Context(), 0, over, 1)
	}()
	r.progress(200)
	old, term := r.active()
	standby := "coordinator-1"
	if old == standby {
		standby = "coordinator-2"
	}
	damaged := r.lastFact()
	r.roost("region", "cordon", "region-9", "--ahead", "--reason", "a rehearsal", "--admin", strings.Join(r.cluster.Admin(), ","))
	r.progress(100)
	r.damageFact(damaged)

	if out, err := r.tryRoost("journal", "check", "--facts"); err == nil || !strings.Contains(string(out), fmt.Sprintf(`"record":%d,`, damaged)) {
		r.Errorf("the check says %s, %v", out, err)
	}
	if out, err := r.tryRoost("journal", "repair", "facts", "--reason", "a rehearsal"); err == nil || !strings.Contains(string(out), "a coordinator is active: ") || !strings.Contains(string(out), fmt.Sprintf(" in term %d,", term)) {
		r.Errorf("with the active coordinator %s of term %d a repair answers %s, %v", old, term, out, err)
	}
	r.kill(standby)
	r.pause(old)
	r.must(r.cluster.Restart(r.Context(), standby))
	eventually(r.T, waitLimit, func() error {
		log, err := os.ReadFile(r.process(standby).Log)
		if err == nil && !strings.Contains(string(log), "roost journal repair facts --dry-run") {
			err = fmt.Errorf("%s does not say what to do about the damage", standby)
		}
		return err
	})
	var dry, done struct {
		Repaired bool
		Findings []struct{ Record uint64 }
		GivenOut int    `json:"given_out"`
		NextTerm uint32 `json:"next_term"`
		Kept     map[string]int
	}
	r.must(json.Unmarshal(r.roost("journal", "repair", "facts", "--dry-run"), &dry))
	if !dry.Repaired || len(dry.Findings) != 1 || dry.Findings[0].Record != damaged || dry.GivenOut == 0 {
		r.Errorf("a dry run says %+v", dry)
	}
	if out, err := r.tryRoost("journal", "check", "--facts"); err == nil {
		r.Errorf("a dry run has repaired the facts: %s", out)
	}
	r.must(json.Unmarshal(r.roost("journal", "repair", "facts", "--reason", "a rehearsal"), &done))
	if !done.Repaired || done.NextTerm <= term+1 || done.Kept["cordon"] != 1 {
		r.Errorf("the repair says %+v, the term was %d", done, term)
	}
	if name, next := r.successor(term); name != standby || next < done.NextTerm {
		r.Errorf("after the repair, %s is active in term %d, want %s in %d or more", name, next, standby, done.NextTerm)
	}
	eventually(r.T, waitLimit, func() error {
		log, err := os.ReadFile(r.process(standby).Log)
		if err == nil && !strings.Contains(string(log), `msg="member removed" service=coordinator node=`+standby) {
			err = fmt.Errorf("%s has not removed the paused one", standby)
		}
		return err
	})
	r.progress(300) // until the members have forgotten the paused one: here it is about the journal
	r.must(r.cluster.Signal(old, syscall.SIGCONT))
	r.progress(100)
	r.up()
	r.progress(100)
	close(over)
	<-ended
	out := string(r.roost("journal", "check", "--facts"))
	if !strings.Contains(out, "a rehearsal") || !strings.Contains(out, `"damaged":false`) {
		r.Errorf("in the end the check says %s", out)
	}
	if out := string(r.roost("placement", "status", "--admin", strings.Join(r.cluster.Admin(), ","))); !strings.Contains(out, "region-9") {
		r.Errorf("the cordon is lost: %s", out)
	}
	r.judgeRepair()
}

// lastFact returns the number of the last record of the facts.
func (r *run) lastFact() (seq uint64) {
	r.Helper()
	r.must(r.db.QueryRowContext(r.Context(), "SELECT max(r.seq) FROM record r JOIN entity e ON e.id = r.entity WHERE e.type = 'roost.coordinator' AND e.name = 'facts'").Scan(&seq))
	return seq
}

// damageFact changes one byte of a record of the facts.
func (r *run) damageFact(seq uint64) {
	r.Helper()
	var id int64
	var body []byte
	query, update := "SELECT r.entity, r.body FROM record r JOIN entity e ON e.id = r.entity WHERE e.type = 'roost.coordinator' AND e.name = 'facts' AND r.seq = ?",
		"UPDATE record SET body = ? WHERE entity = ? AND seq = ?"
	if r.store == onPostgres {
		query, update = strings.Replace(query, "?", "$1", 1), "UPDATE record SET body = $1 WHERE entity = $2 AND seq = $3"
	}
	r.must(r.db.QueryRowContext(r.Context(), query, seq).Scan(&id, &body))
	body[len(body)/2] ^= 0x10
	eventually(r.T, waitLimit, func() error { // the others write too
		_, err := r.db.ExecContext(r.Context(), update, body, id, seq)
		return err
	})
}

func (r *run) judgeRepair() {
	ctx, cancel := context.WithTimeout(r.Context(), waitLimit)
	defer cancel()
	final := map[string][]int64{}
	for i := range load.Lists {
		list, err := r.load.Final(ctx, load.ListName(i))
		r.must(err)
		final[load.ListName(i)] = list
	}
	ops, stored := r.load.Ops(), r.stored()
	for what, err := range map[string]error{
		"the history":                     history.Check(ops, final, 2*waitLimit),
		"the journal":                     history.CheckStored(ops, stored),
		"the lists, read from the region": history.CheckRead(final, stored),
	} {
		if err != nil {
			r.Errorf("%s: %v", what, err)
		}
	}
	for _, p := range r.load.Problems {
		r.Errorf("an answer that no fault explains: %s", p)
	}
	r.judgeDeaths()
	r.Logf("repair-facts             %-10s %5d operations, longest gap %.1f s", r.store, len(ops), history.Longest(ops, 0, r.load.End).Round(100*time.Millisecond).Seconds())
}

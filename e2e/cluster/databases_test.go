package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
)

// twoDatabases gives the journal a second database, on a server of its own. The lists are there. The slips are in
// the first one, with the coordinators' facts.
func twoDatabases(r *run, o *launcher.Options) {
	r.second = postgrestest.Start(r.T)
	name, err := r.second.NewDatabase()
	r.must(err)
	where := r.second.URL(postgrestest.Superuser, name)
	r.databases = "2=" + where
	o.RegionBinary = filepath.Join(binaries(r.T), "pair-region")
	for _, role := range []string{launcher.Region, launcher.Coordinator} {
		o.Args[role] = append(o.Args[role], "--journal.databases="+r.databases)
	}
	o.Args[launcher.Region] = append(o.Args[launcher.Region], "--journal.types=List=2")
	u, err := url.Parse(where)
	r.must(err)
	q := u.Query()
	q.Set("search_path", "roost")
	u.RawQuery = q.Encode()
	r.open("pgx", u.String())
}

// slipCount is the number of increments of slips.
type slipCount struct{ tried, ok map[string]int }

const slipsNumber = 16

// askSlip sends a command to a slip, and returns its count.
func (r *run) askSlip(n int, command string) (count int, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	gateways := r.cluster.Gateways()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/v1/Slip/slip-%d/%s", gateways[n%len(gateways)], n, command), strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	if err == nil {
		err = json.Unmarshal(body, &count)
	}
	return count, err
}

// countSlips counts all slips up, each until that is answered.
func (r *run) countSlips() {
	r.Helper()
	if r.slips.ok == nil {
		r.slips = slipCount{map[string]int{}, map[string]int{}}
	}
	for n := range slipsNumber {
		name := fmt.Sprint("slip-", n)
		eventually(r.T, waitLimit, func() error {
			r.slips.tried[name]++
			_, err := r.askSlip(n, "Count")
			if err == nil {
				r.slips.ok[name]++
			}
			return err
		})
	}
}

// slipsAreCounted checks that no count that was answered is lost.
func slipsAreCounted(r *run) {
	for n := range slipsNumber {
		name, count := fmt.Sprint("slip-", n), 0
		eventually(r.T, waitLimit, func() (err error) {
			count, err = r.askSlip(n, "Get")
			return err
		})
		if count < r.slips.ok[name] || count > r.slips.tried[name] {
			r.Errorf("%s has counted to %d; %d of %d were answered", name, count, r.slips.ok[name], r.slips.tried[name])
		}
	}
}

// killSecondDatabase kills the server with the lists. The slips are served on, also when their region is lost, a region
// starts and another coordinator takes over meanwhile.
func killSecondDatabase(r *run) {
	r.countSlips()
	r.wait(2 * time.Second)
	r.second.Kill()
	began := time.Now()
	for range 5 {
		r.countSlips()
	}
	name, before := r.active()
	r.kill(name, "region-2")
	r.successor(before)
	r.countSlips()
	r.up()
	r.countSlips()
	if down, err := r.scrape("region-1", "roost_journal_database_down"); err != nil || down != 1 {
		r.Errorf("region-1 reports %.0f databases as down: %v", down, err)
	}
	r.second.Run()
	r.figure("%d commands for slips answered in %.1f s without the other server", 7*slipsNumber, time.Since(began).Seconds())
	eventually(r.T, waitLimit, func() error {
		down, err := r.scrape("region-1", "roost_journal_database_down")
		if err == nil && down != 0 {
			err = fmt.Errorf("region-1 still reports a database as down")
		}
		return err
	})
}

// killFirstDatabase kills the server with the slips and the facts. The lists are served on, where they are.
func killFirstDatabase(r *run) {
	r.countSlips()
	r.wait(2 * time.Second)
	r.server.Kill()
	began, before := time.Now(), r.load.Acked()
	eventually(r.T, waitLimit, func() error {
		if got := r.load.Acked() - before; got < 500 {
			return fmt.Errorf("%d commands for lists were answered without the other server", got)
		}
		return nil
	})
	r.slips.tried["slip-0"]++
	if _, err := r.askSlip(0, "Count"); err == nil {
		r.Error("a slip is counted although its server is down")
	}
	r.figure("%d commands for lists answered in %.1f s without the other server", r.load.Acked()-before, time.Since(began).Seconds())
	r.server.Run()
	r.countSlips()
}

// withStandby gives the server of the journal a synchronous standby. The URL names both.
func withStandby(r *run, o *launcher.Options) {
	r.second = r.server.Standby()
	u, err := url.Parse(r.journalURL)
	r.must(err)
	standby, err := url.Parse(r.second.URL(postgrestest.Superuser, "x"))
	r.must(err)
	q := u.Query()
	q.Set("host", q.Get("host")+","+standby.Query().Get("host"))
	q.Set("target_session_attrs", "read-write")
	u.RawQuery = q.Encode()
	o.Lease = "" // in a file
	r.journal(o, u.String())
	q.Set("search_path", "roost")
	u.RawQuery = q.Encode()
	r.open("pgx", u.String())
}

// promoteStandby kills the server of the journal, and lets its synchronous standby take its place. The run proves something only if
// commits wait for the standby: what was acknowledged is then stored there.
func promoteStandby(r *run) {
	r.wait(2 * time.Second)
	var waits string
	r.must(r.db.QueryRowContext(r.Context(), "SELECT sync_state FROM pg_stat_replication").Scan(&waits))
	if waits != "sync" {
		r.Fatalf("the standby is %q, want sync", waits)
	}
	r.server.Kill()
	r.wait(time.Second)
	began, before := time.Now(), r.load.Acked()
	r.second.Promote()
	eventually(r.T, waitLimit, func() error {
		if got := r.load.Acked() - before; got < 500 {
			return fmt.Errorf("%d commands were answered after the promotion", got)
		}
		return nil
	})
	r.figure("500 commands answered within %.1f s of the promotion", time.Since(began).Seconds())
}

package bench

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/roost-cluster/roost/e2e/bench/baseline"
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
)

const (
	besideSQLite   = "compared with a service by hand, SQLite"
	besidePostgres = "compared with a service by hand, PostgreSQL"
)

// serviceSQLite compares durable commands by HTTP with a service that a developer would write by hand, on SQLite.
func (r *run) serviceSQLite() error {
	s, err := r.sharedCluster()
	if err != nil {
		return err
	}
	return r.besideService(besideSQLite, s, "sqlite:"+filepath.Join(r.Dir, "service.db"), [4]float64{})
}

// besideService compares a cluster with the service by hand in a database. The targets are the least ratios with 1, 64
// and 256 connections to many entities, and with 64 connections to one; 0: none.
func (r *run) besideService(section string, s *testCluster, database string, targets [4]float64) (err error) {
	service, err := r.startBaselines(baseline.DatabaseVariable + "=" + database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	for i, load := range []struct{ accounts, connections int }{
		{r.Sizes.Accounts, 1}, {r.Sizes.Accounts, connections}, {r.Sizes.Accounts, 4 * connections}, {1, connections},
	} {
		name := fmt.Sprintf("%s, %s", count(load.accounts, "entity", "entities"), count(load.connections, "connection", "connections"))
		base := httpLoad{addr: service.Service, contentType: jsonType, connections: load.connections, path: depositPath(load.accounts), body: same(questionJSON)}
		ours := httpLoad{addr: s.gateway.Service, contentType: jsonType, connections: load.connections,
			path: entityPath(entities.AccountType, entities.Deposit, load.accounts), body: same(questionJSON)}
		if err := r.compare("commands/s", measure.Subject{Name: "service by hand", Processes: []int{service.PID}, Run: base.run}, subject{
			measure.Subject{Name: fmt.Sprint("service-", load.accounts, "-", load.connections), Processes: []int{s.gateway.PID, s.region.PID}, Run: ours.run},
			report.Row{Section: section, Measure: name, Target: report.Target{Ratio: targets[i]}},
		}); err != nil {
			return err
		}
	}
	return nil
}

// count returns a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

// depositPath returns the path of a deposit to one of count accounts of the service by hand.
func depositPath(count int) func(uint64) []string {
	ids := make([]string, count)
	for i := range ids {
		ids[i] = "entity-" + strconv.Itoa(i)
	}
	return func(n uint64) []string { return []string{baseline.DepositPath, ids[n%uint64(count)]} }
}

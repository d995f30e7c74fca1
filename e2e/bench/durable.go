package bench

import (
	"fmt"

	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
)

// durableHTTP measures durable commands by HTTP, for one entity and for many,
// beside a bare batch insert of the same rows.
func (r *run) durableHTTP() error {
	s, err := r.started()
	if err != nil {
		return err
	}
	bare, err := newBareSQLite(r.Dir, r.Sizes.Accounts)
	if err != nil {
		return err
	}
	defer bare.close()
	load := func(count, connections int) wanted {
		p := posting{addr: s.gateway.Service, contentType: jsonType, connections: connections,
			path: entityPath(entities.AccountType, entities.Deposit, count), body: same(questionJSON)}
		name := "entities"
		if count == 1 {
			name = "entity"
		}
		return wanted{
			measure.Subject{Name: fmt.Sprint("durable-http-", count), Processes: []int{s.gateway.PID, s.region.PID}, Run: p.load},
			report.Row{Section: "durable, SQLite", Measure: fmt.Sprintf("command by HTTP, %d %s, %d connections", count, name, connections)},
		}
	}
	return r.compare("commands/s", measure.Subject{Name: "bare batch insert", Run: bare.insert},
		load(1, connections), load(r.Sizes.Accounts, 4*connections))
}

package bench

import (
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
)

const (
	onSQLite   = "durable, SQLite"
	onPostgres = "durable, PostgreSQL"
	hotCallers = 64
)

// durable measures durable commands on SQLite, at the runner and by HTTP.
func (r *run) durable() error {
	bare, err := newBareSQLite(r.Dir, r.Sizes.Accounts)
	if err != nil {
		return err
	}
	defer bare.close()
	base := measure.Subject{Name: "bare batch insert", Run: bare.insert}
	if err := r.withLocal("durable", func(l *local) error {
		peak, err := r.durableAtRunner(onSQLite, l, base)
		if err != nil {
			return err
		}
		return r.halfOfPeak(l, peak)
	}); err != nil {
		return err
	}
	return r.durableHTTP(base)
}

// deposits returns a function that makes the n-th deposit, over count accounts of some types in turn.
func (l *local) deposits(count int, types ...sharding.EntityType) func(number, n uint64) link.Command {
	to := make([]addressee, count)
	for i := range to {
		to[i] = l.addressee(types[i%len(types)], "account-"+strconv.Itoa(i))
	}
	return func(number, n uint64) link.Command {
		c := to[n%uint64(count)].command(number, n, questionJSON)
		c.Envelope.Command, c.Envelope.Encoding = entities.Deposit, sharding.JSON
		return c
	}
}

// durableAtRunner returns the rate of commands to many accounts.
func (r *run) durableAtRunner(section string, l *local, base measure.Subject) (peak float64, err error) {
	var next atomic.Uint64
	load := func(count, callers int) measure.Subject {
		a, deposit := newLocalAsker(l, callers), l.deposits(count, entities.AccountType)
		return measure.Subject{Name: fmt.Sprintf("%s-runner-%d", section, count), Run: func(length time.Duration) (measure.Sample, error) {
			return measure.Callers(callers, length, func(c int) error {
				a.callers[c].command[0] = deposit(uint64(c), next.Add(1))
				return a.ask(c)
			})
		}}
	}
	many := r.Sizes.Accounts
	if err := r.compare("commands/s", base,
		subject{load(1, hotCallers), report.Row{Section: section, Measure: fmt.Sprintf("at the runner, 1 entity, %d in flight", hotCallers),
			Target: report.Target{AtLeast: 10_000}}},
		subject{load(many, many), report.Row{Section: section, Measure: fmt.Sprintf("at the runner, %d entities", many),
			Target: report.Target{Ratio: 0.6}}},
	); err != nil {
		return 0, err
	}
	return r.report.Rows[len(r.report.Rows)-1].Value, nil
}

// halfOfPeak measures latency in an open loop at half of the rate of a closed one.
func (r *run) halfOfPeak(l *local, peak float64) error {
	p := &pending{done: map[uint64]func(error){}}
	deposit := l.deposits(r.Sizes.Accounts, entities.AccountType)
	var n uint64
	rate := max(peak/2, 100)
	s, err := measure.Open(rate, 50_000, 0, time.Duration(r.Rounds)*r.Length, func(_ int, done func(error)) {
		n++
		p.mu.Lock()
		p.done[n] = done
		p.mu.Unlock()
		l.runner.Submit(p, []link.Command{deposit(n, 1<<40+n)})
	})()
	if err != nil {
		return err
	}
	r.add(report.Row{
		Section: onSQLite, Measure: "latency at the runner at half of that rate (open loop)", Unit: "commands/s", Value: s.Rate(),
		P50: s.Latency.Quantile(0.5), P99: s.Latency.Quantile(0.99), Target: report.Target{P99: 15 * time.Millisecond},
	})
	return nil
}

// pending are the unanswered commands of an open loop.
type pending struct {
	mu   sync.Mutex
	done map[uint64]func(error)
}

// Unsent is 0: answers are taken at once.
func (*pending) Unsent() int { return 0 }
func (*pending) Ended() bool { return false }

// Waiting does nothing: answers are not batched.
func (*pending) Waiting() {}

// SendBatch takes answers.
func (p *pending) SendBatch(as []link.Answer) error {
	for i := range as {
		p.mu.Lock()
		done := p.done[as[i].Number]
		delete(p.done, as[i].Number)
		p.mu.Unlock()
		if as[i].NotMine != nil || as[i].Reply.Outcome != sharding.Executed {
			done(fmt.Errorf("%v: %s", as[i].Reply.Outcome, as[i].Reply.Message))
		} else {
			done(nil)
		}
	}
	return nil
}

// durableHTTP measures durable commands by HTTP, for one entity and for many.
func (r *run) durableHTTP(base measure.Subject) error {
	s, err := r.sharedCluster()
	if err != nil {
		return err
	}
	load := func(count, connections int) subject {
		p := httpLoad{addr: s.gateway.Service, contentType: jsonType, connections: connections,
			path: entityPath(entities.AccountType, entities.Deposit, count), body: same(questionJSON)}
		name := "entities"
		if count == 1 {
			name = "entity"
		}
		return subject{
			measure.Subject{Name: fmt.Sprint("durable-http-", count), Processes: []int{s.gateway.PID, s.region.PID}, Run: p.run},
			report.Row{Section: onSQLite, Measure: fmt.Sprintf("by HTTP, %d %s, %d connections", count, name, connections)},
		}
	}
	return r.compare("commands/s", base, load(1, connections), load(r.Sizes.Accounts, 4*connections))
}

// replay measures how fast an entity with many events is loaded, against a bare read of
// the same rows.
func (r *run) replay() error {
	ctx, path := r.ctx, filepath.Join(r.Dir, "replay.db")
	b, err := open.Open(ctx, "sqlite:"+path, journal.DefaultConfig())
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	account := sharding.Entity{Type: entities.AccountType, ID: "long"}
	if err := storeEvents(r, b, account); err != nil {
		return err
	}
	bare, err := openRows(path)
	if err != nil {
		return err
	}
	defer func() { _ = bare.Close() }()
	definition := entities.Types(entities.Shards)[1]
	return r.compare("events/s",
		measure.Subject{Name: "bare SELECT of the rows", Run: func(time.Duration) (measure.Sample, error) { return readRows(ctx, bare) }},
		subject{measure.Subject{Name: "replay", Run: func(time.Duration) (measure.Sample, error) {
			began := time.Now()
			found, err := b.Load(ctx, journal.LoadRequest{Entity: account})
			if err != nil {
				return measure.Sample{}, err
			}
			inst, err := instance.New(definition, account.ID)
			if err != nil {
				return measure.Sample{}, err
			}
			events := 0
			for i := range found.Records {
				events += len(found.Records[i].Events)
				if err := inst.Replay(found.Records[i].Events); err != nil {
					return measure.Sample{}, err
				}
			}
			return measure.Sample{Ops: int64(events), Elapsed: time.Since(began)}, nil
		}}, report.Row{Section: onSQLite, Measure: "replay of one entity", Target: report.Target{AtLeast: 300_000}}})
}

// storeEvents stores the events that are replayed.
func storeEvents(r *run, b journal.Backend, account sharding.Entity) error {
	shard := sharding.ShardID{Type: account.Type, Index: shardingtest.ShardOf(account.ID, entities.Shards)}
	if _, err := b.Commit(r.ctx, []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}}}); err != nil {
		return err
	}
	inst, err := instance.New(entities.Types(entities.Shards)[1], account.ID)
	if err != nil {
		return err
	}
	events, err := inst.Encode(entities.Deposited{Data: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
	if err != nil {
		return err
	}
	for seq := uint64(1); seq <= uint64(r.Sizes.Replay); {
		a := &sharding.Append{Shard: shard, Epoch: 1, Entity: account}
		for ; seq <= uint64(r.Sizes.Replay) && len(a.Records) < 512; seq++ {
			a.Records = append(a.Records, sharding.Record{
				Seq: seq, Command: sharding.CommandID(strconv.FormatUint(seq, 36)), Hash: sharding.Hash([]byte("aaaaaaaaaaaaaaaa")), Events: events,
				Reply: sharding.Reply{Outcome: sharding.Executed, Payload: []byte(`{"n":1000000000}`)},
			})
		}
		results, err := b.Commit(r.ctx, []journal.Op{{Append: a}})
		if err != nil {
			return err
		}
		if results[0].Verdict != sharding.Durable {
			return fmt.Errorf("append is %v: %w", results[0].Verdict, results[0].Err)
		}
	}
	return nil
}

// claims measures how long a region takes to claim many shards at once.
func (r *run) claims() error {
	return r.withLocal("claims", func(l *local) error {
		var took []float64
		for range r.Rounds {
			began := time.Now()
			if err := l.claim(r.ctx, entities.EchoType, r.Sizes.Claims); err != nil {
				return err
			}
			took = append(took, float64(time.Since(began))/1e6)
		}
		r.add(report.Row{
			Section: onSQLite, Measure: fmt.Sprintf("%d claims at once", r.Sizes.Claims), Unit: "ms",
			Value: measure.Median(took), Target: report.Target{AtMost: 500},
		})
		return nil
	})
}

package cluster

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/e2e/cluster/ledger"
	"github.com/roost-cluster/roost/e2e/cluster/load"
	"github.com/roost-cluster/roost/libs/test/testbin"
)

const (
	bankAccounts  = 1000
	bankTransfers = 100_000
	bankEach      = 1000
	bankClients   = 48
	// bankKills is the least number of region kills; every seventh time the active
	// coordinator is killed, too.
	bankKills = 14
)

// TestBank: 100,000 transfers between entities, with refusals, deletes and repeats, while
// processes are killed: money moves exactly once.
func TestBank(t *testing.T) {
	if os.Getenv("E2E") != "full" {
		t.Skip("takes minutes: make e2e RUN=bank")
	}
	t.Run("bank", func(t *testing.T) {
		for _, store := range both {
			t.Run(store, func(t *testing.T) {
				ran.Store(true)
				playBank(t, store)
			})
		}
	})
}

// clerks has the clients of a run of the bank.
type clerks struct {
	*run
	transfers int64
	next      atomic.Int64
	done      atomic.Int64
	kills     atomic.Int64
	repeats   atomic.Int64
	seed      uint64

	mu     sync.Mutex
	ops    []ledger.Op
	later  []later
	closed []string
}

// later is an answer that must come again after a kill.
type later struct {
	op    ledger.Op
	body  []byte
	kills int64
}

func playBank(t *testing.T, store string) {
	r := &run{T: t, scenario: &scenario{name: "bank"}, store: store, dir: t.TempDir(), allowed: map[string]string{}, retired: map[string]bool{}}
	b := &clerks{run: r, transfers: bankTransfers, seed: rand.Uint64()}
	if n, err := strconv.Atoi(os.Getenv("BANK_TRANSFERS")); err == nil {
		b.transfers = int64(n)
	}
	t.Logf("seed %d", b.seed)
	o := launcher.Options{
		Coordinators: 2, Regions: 3, Gateways: 2, Dir: r.dir, Args: map[string][]string{}, Changed: r.changed, StartTimeout: waitLimit,
		RegionBinary: filepath.Join(testbin.Build(t, "examples/bank/cmd/bank-region"), "bank-region"), BinDir: binaries(t),
	}
	r.setUpJournal(&o)
	r.cluster = start(t, o)
	r.allowDeath(declaredDown, r.names()...)
	r.load = load.New(r.cluster.Gateways(), 0)
	b.each(bankAccounts, func(i int) {
		name := accountName(i)
		b.must2(b.ask(name, "Open", "open "+name, map[string]int64{"limit": bankLimit(i)}))
		b.must2(b.ask(name, "Deposit", "deposit "+name, map[string]int64{"amount": bankEach}))
	})
	began := time.Now()
	over, judged := make(chan struct{}), make(chan *auditor)
	go func() { judged <- b.audit(over) }()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.each(bankClients, b.client)
	}()
	b.hurt(ended)
	<-ended
	took := time.Since(began)
	for _, l := range b.later {
		b.again(l)
	}
	eventually(t, 5*waitLimit, func() error {
		n := 0
		if err := r.db.QueryRowContext(t.Context(), `SELECT count(*) FROM send`).Scan(&n); err != nil || n > 0 {
			return fmt.Errorf("%d records have sends that are not done: %w", n, err)
		}
		return nil
	})
	close(over)
	a := <-judged
	b.judge(a, took)
}

func accountName(i int) string { return fmt.Sprint("account-", i) }

// bankLimit lets every tenth account refuse much.
func bankLimit(i int) int64 {
	if i%10 == 0 {
		return bankEach + 20
	}
	return 0
}

func (b *clerks) must2(a load.Answer, refused bool) {
	if a.Outcome != history.Executed || refused {
		b.Errorf("refused: %v %s", a.Outcome, a.Body)
	}
}

// each calls f for every number below n, bankClients at a time.
func (b *clerks) each(n int, f func(i int)) {
	var group sync.WaitGroup
	for w := range bankClients {
		group.Go(func() {
			for i := w; i < n && !b.Failed(); i += bankClients {
				f(i)
			}
		})
	}
	group.Wait()
}

// ask sends a command with the same key until its outcome is known, or for two minutes.
func (b *clerks) ask(id, command, key string, in any) (a load.Answer, refused bool) {
	ctx, cancel := context.WithTimeout(b.Context(), 2*waitLimit)
	defer cancel()
	doubt := false
	for gateway := 0; ; gateway++ {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		a = b.load.Post(try, gateway, "/v1/Account/"+id+"/"+command, key, in)
		cancel()
		if a.Outcome == history.Executed {
			var e struct{ Code string }
			_ = json.Unmarshal(a.Body, &e) // a success has no code
			return a, e.Code != ""
		}
		doubt = doubt || a.Outcome == history.Unknown
		if ctx.Err() != nil {
			if doubt {
				a.Outcome = history.Unknown
			}
			return a, false
		}
		b.wait(100 * time.Millisecond)
	}
}

// client transfers until all transfers are made.
func (b *clerks) client(i int) {
	r := rand.New(rand.NewPCG(b.seed, uint64(i)))
	for n := b.next.Add(1); n <= b.transfers && !b.Failed(); n = b.next.Add(1) {
		b.waitForKills(n)
		o := ledger.Op{ID: fmt.Sprint("t", n), Key: fmt.Sprint("key-", n), From: accountName(r.IntN(bankAccounts)), To: accountName(r.IntN(bankAccounts)), Amount: 1 + r.Int64N(10)}
		switch dice := r.IntN(100); {
		case dice < 20: // pairs with many transfers in progress
			k := r.IntN(16)
			o.From, o.To = accountName(2*k+1), accountName(2*k+2)
			if r.IntN(2) == 0 {
				o.From, o.To = o.To, o.From
			}
		case dice < 25:
			o.To = fmt.Sprint("nobody-", r.IntN(50))
		}
		if o.From == o.To {
			o.To = "nobody"
		}
		b.transfer(o, r)
		if r.IntN(100) == 0 {
			b.closeOrOpen(n, r)
		}
		b.done.Add(1)
	}
}

// waitForKills holds a transfer back until the kills catch up, so that kills fall among all
// transfers, however few there are.
func (b *clerks) waitForKills(n int64) {
	for n > b.transfers*(b.kills.Load()+2)/(bankKills+2) && !b.Failed() {
		b.wait(50 * time.Millisecond)
	}
}

func (b *clerks) transfer(o ledger.Op, r *rand.Rand) {
	a, refused := b.ask(o.From, "Transfer", o.Key, map[string]any{"id": o.ID, "to": o.To, "amount": o.Amount})
	o.Outcome, o.Refused = a.Outcome, refused
	b.mu.Lock()
	b.ops = append(b.ops, o)
	if a.Outcome == history.Executed && r.IntN(50) == 0 {
		b.later = append(b.later, later{o, a.Body, b.kills.Load()})
	}
	var due *later
	if len(b.later) > 0 && b.later[0].kills < b.kills.Load() {
		due = &b.later[0]
		b.later = b.later[1:]
	}
	b.mu.Unlock()
	if due != nil {
		b.again(*due)
	}
}

// again repeats a transfer: its answer is the first one, which is stored, and so it comes in time.
func (b *clerks) again(l later) {
	a, refused := b.ask(l.op.From, "Transfer", l.op.Key, map[string]any{"id": l.op.ID, "to": l.op.To, "amount": l.op.Amount})
	b.repeats.Add(1)
	switch {
	case a.Outcome != history.Executed:
		b.Errorf("%+v was answered by %s, and its repeat is %v after two minutes: %s", l.op, l.body, a.Outcome, a.Body)
	case refused != l.op.Refused || !bytes.Equal(a.Body, l.body):
		b.Errorf("%+v was answered by %s, and when it was repeated by %s", l.op, l.body, a.Body)
	}
}

// closeOrOpen closes an account, or opens one that was closed.
func (b *clerks) closeOrOpen(n int64, r *rand.Rand) {
	b.mu.Lock()
	name := accountName(bankAccounts/2 + r.IntN(bankAccounts/2))
	opens := len(b.closed) > 0 && r.IntN(2) == 0
	if opens {
		name, b.closed = b.closed[0], b.closed[1:]
	}
	b.mu.Unlock()
	if opens {
		b.ask(name, "Open", fmt.Sprint("open-", n), map[string]int64{"limit": 0}) // refused if the close was, too
		return
	}
	o := ledger.Op{ID: fmt.Sprint("c", n), Key: fmt.Sprint("close-", n), From: name, To: accountName(r.IntN(bankAccounts / 2))}
	if a, refused := b.ask(name, "Close", o.Key, map[string]string{"id": o.ID, "to": o.To}); a.Outcome == history.Executed && !refused {
		b.mu.Lock()
		b.closed = append(b.closed, name)
		b.mu.Unlock()
	}
}

// hurt kills processes at equal distances of the load, and starts them again.
func (b *clerks) hurt(ended <-chan struct{}) {
	for n := range bankKills {
		for b.done.Load() < b.transfers*int64(n+1)/(bankKills+2) && !b.Failed() {
			b.wait(50 * time.Millisecond)
		}
		select {
		case <-ended:
			b.markVoid("the load has ended before kill %d", n+1)
			return
		default:
		}
		names := []string{fmt.Sprint("region-", 1+n%3)}
		if n%7 == 3 {
			active, _ := b.active()
			names = append(names, active)
		}
		b.kill(names...)
		b.kills.Add(1)
		b.wait(2 * time.Second)
		b.up()
	}
}

// auditor adds up the journal while it is written.
type auditor struct {
	ledger  *ledger.Ledger
	seen    map[int64]int64 // by number of the account, the last record
	audits  int
	slowest time.Duration
	records int
}

// audit adds up the journal every second, and once more when all is over.
func (b *clerks) audit(over <-chan struct{}) *auditor {
	a := &auditor{ledger: ledger.New(), seen: map[int64]int64{}}
	for last := false; ; {
		began := time.Now()
		if err := b.auditOnce(a); err != nil {
			b.Errorf("audit %d: %v", a.audits, err)
			return a
		}
		a.audits++
		a.slowest = max(a.slowest, time.Since(began))
		if last {
			return a
		}
		select {
		case <-over:
			last = true
		case <-time.After(time.Second):
		}
	}
}

// How the records that are new are read, by plain SQL: the records of each account after the last
// one that was seen, given as pairs in JSON.
const (
	newRecords = `WITH c AS MATERIALIZED (%s) SELECT e.id, e.name, r.seq, r.body FROM entity e LEFT JOIN c ON c.id = e.id
		JOIN record r ON r.entity = e.id AND r.seq > coalesce(c.seq, 0) WHERE e.type = 'Account' ORDER BY e.id, r.seq`
	seenSQLite   = `SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS seq FROM json_each($1)`
	seenPostgres = `SELECT (value->>0)::bigint AS id, (value->>1)::bigint AS seq FROM jsonb_array_elements($1::jsonb)`
	pendingSends = `SELECT e.name, s.seq, s.done FROM send s JOIN entity e ON e.id = s.entity WHERE e.type = 'Account'`
)

// auditOnce reads what is new in one transaction, and adds it up.
func (b *clerks) auditOnce(a *auditor) error {
	seen, how := seenSQLite, (*sql.TxOptions)(nil)
	if b.store == onPostgres {
		seen, how = seenPostgres, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	tx, err := b.db.BeginTx(b.Context(), how)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	pairs := make([][2]int64, 0, len(a.seen))
	for id, seq := range a.seen { // order-free: a set
		pairs = append(pairs, [2]int64{id, seq})
	}
	text, err := json.Marshal(pairs)
	if err != nil {
		return err
	}
	rows, err := tx.QueryContext(b.Context(), fmt.Sprintf(newRecords, seen), string(text))
	if err != nil {
		return err
	}
	for rows.Next() {
		var id, seq int64
		var name, body []byte
		if err := rows.Scan(&id, &name, &seq, &body); err != nil {
			return err
		}
		record, err := history.DecodeRecord(body)
		if err != nil || record.Wakes > 0 {
			return fmt.Errorf("record %d of %s cannot be read: %q", seq, name, body)
		}
		a.ledger.Add(ledger.Place{Account: string(name), Seq: seq}, record)
		a.seen[id] = seq
		a.records++
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if rows, err = tx.QueryContext(b.Context(), pendingSends); err != nil {
		return err
	}
	var pending []ledger.Place
	for rows.Next() {
		var name, done []byte
		var seq int64
		if err := rows.Scan(&name, &seq, &done); err != nil {
			return err
		}
		if done[0]&3 != 0 {
			return fmt.Errorf("record %d of %s has a dead letter", seq, name)
		}
		pending = append(pending, ledger.Place{Account: string(name), Seq: seq})
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return a.ledger.Balance(pending)
}

// judge checks the whole at the end, and what the accounts themselves say.
func (b *clerks) judge(a *auditor, took time.Duration) {
	if err := a.ledger.End(b.ops); err != nil {
		b.Errorf("the journal is wrong: %v", err)
	}
	refused, unknown := 0, 0
	for _, o := range b.ops {
		if o.Refused {
			refused++
		}
		if o.Outcome == history.Unknown {
			unknown++
		}
	}
	total := int64(0)
	for name, balance := range a.ledger.Balances() { // order-free: a sum
		answer, _ := b.ask(name, "Show", "", map[string]string{})
		var s struct{ Balance int64 }
		if err := json.Unmarshal(answer.Body, &s); err != nil || s.Balance != balance {
			b.Errorf("%s says %s, and the journal %d", name, answer.Body, balance)
		}
		total += balance
	}
	if total != bankAccounts*bankEach {
		b.Errorf("the total is %d, it was %d", total, bankAccounts*bankEach)
	}
	if a.ledger.Refunds == 0 || a.ledger.Deletes == 0 || refused == 0 || b.repeats.Load() == 0 || len(b.void) > 0 {
		b.Errorf("it proves too little: %d refunds, %d deletes, %d refused, %d repeats; %v", a.ledger.Refunds, a.ledger.Deletes, refused, b.repeats.Load(), b.void)
	}
	for _, p := range b.load.Problems {
		b.Errorf("an answer that no fault explains: %s", p)
	}
	b.judgeDeaths()
	b.Logf("%-24s %-10s %d transfers in %.0f s (%.0f/s), %d credited, %d refunded, %d refused at the source, %d unknown, %d deletes, %d repeats, %d kills; %d records added up %d times, in %d ms at most; failed attempts %v",
		"bank", b.store, len(b.ops), took.Seconds(), float64(len(b.ops))/took.Seconds(), a.ledger.Credits, a.ledger.Refunds, refused, unknown, a.ledger.Deletes,
		b.repeats.Load(), b.kills.Load(), a.records, a.audits, a.slowest.Milliseconds(), b.load.Reasons)
}

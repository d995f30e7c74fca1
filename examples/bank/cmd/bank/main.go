// Command bank is a caller of the bank's accounts.
//
//	bank open alice 10000
//	bank open bob 0
//	bank transfer alice bob 2500
//	bank show alice
//	bank close bob alice
//	bank run 20 1000
//
// The last one opens 20 accounts of its own, transfers 1000 times at random, sometimes to an
// account that does not exist, and compares the total when all is settled. Kill a region meanwhile.
//
// # What this does not do
//
// Each command line has idempotency keys of its own: it repeats what is in doubt until its time
// is over, and the same line again does the same again.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/roost-cluster/roost/examples/bank"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

const (
	// timeout bounds one command: a region that takes over needs some seconds.
	timeout = 30 * time.Second
	// each is the first balance of every account of a run, in cents.
	each = 100_00
)

const usage = `usage: bank [-gateway URL,URL] COMMAND

  open ACCOUNT CENTS       open an account, with a first deposit
  transfer FROM TO CENTS   send money; what is refused comes back
  show ACCOUNT             show an account
  close ACCOUNT TO         send the rest to another account, and end this one
  run ACCOUNTS TRANSFERS   transfer at random, and compare the total

`

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// errUsage is a mistake in the command line.
var errUsage = errors.New("wrong usage; see bank -h")

// run runs the command line and returns the exit code: 0 done, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	flags := flag.NewFlagSet("bank", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.Usage = func() { fmt.Fprint(errOut, usage); flags.PrintDefaults() }
	gateway := flags.String("gateway", cmp.Or(os.Getenv("ROOST_GATEWAY"), "http://localhost:8080"), "URLs of gateways, with commas; env ROOST_GATEWAY")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	c, err := client.New(strings.Split(*gateway, ","))
	if err != nil {
		fmt.Fprintln(errOut, "bank:", err)
		return 2
	}
	line, err := teller{c, rand.Text()}.do(ctx, flags.Args())
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(errOut, "bank:", err)
		return 2
	case err != nil:
		fmt.Fprintln(errOut, "bank:", err)
		return 1
	}
	fmt.Fprintln(out, line)
	return 0
}

// teller sends commands. Its name is in all of its keys.
type teller struct {
	via  entity.Caller
	name string
}

// ask sends a command that must be answered in time.
func ask[In any](ctx context.Context, t teller, h *entity.Handle[In, bank.Status], id string, in In, opts ...entity.CallOption) (bank.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return h.Call(ctx, t.via, id, in, opts...)
}

// do runs the words of a command line, and returns the line to print.
func (t teller) do(ctx context.Context, args []string) (string, error) {
	shape := map[string][2]int{"open": {1, 1}, "transfer": {2, 1}, "show": {1, 0}, "close": {2, 0}, "run": {0, 2}}
	var counts [2]int64
	command, ids := "", []string(nil)
	if len(args) > 0 {
		command = args[0]
	}
	n, known := shape[command]
	if !known || len(args) != 1+n[0]+n[1] {
		return "", errUsage
	}
	ids = args[1 : 1+n[0]]
	for i, text := range args[1+n[0]:] {
		var err error
		if counts[i], err = strconv.ParseInt(text, 10, 64); err != nil || counts[i] < 0 {
			return "", errUsage
		}
	}
	switch command {
	case "open":
		return show(t.open(ctx, ids[0], counts[0]))
	case "transfer":
		return show(t.transfer(ctx, t.name, ids[0], ids[1], counts[0]))
	case "close":
		return show(ask(ctx, t, bank.Close, ids[0], bank.Closing{ID: t.name, To: ids[1]}, entity.Key(t.name)))
	case "run":
		return t.many(ctx, int(counts[0]), int(counts[1]))
	}
	return show(ask(ctx, t, bank.Show, ids[0], bank.Nothing{}))
}

func (t teller) open(ctx context.Context, id string, amount int64) (bank.Status, error) {
	s, err := ask(ctx, t, bank.Open, id, bank.Terms{}, entity.Key(t.name+" open"))
	if err != nil || amount == 0 {
		return s, err
	}
	return ask(ctx, t, bank.Deposit, id, bank.Money{Amount: amount}, entity.Key(t.name+" deposit"))
}

func (t teller) transfer(ctx context.Context, id, from, to string, amount int64) (bank.Status, error) {
	return ask(ctx, t, bank.Transfer, from, bank.Order{ID: id, To: to, Amount: amount}, entity.Key(id))
}

// many transfers at random among accounts of its own, and compares the total.
func (t teller) many(ctx context.Context, accounts, transfers int) (string, error) {
	if accounts < 2 {
		return "", errUsage
	}
	id := func(i int) string { return fmt.Sprintf("%s-%d", t.name, i) }
	for i := range accounts {
		if _, err := t.open(ctx, id(i), each); err != nil {
			return "", err
		}
	}
	refused := 0
	for n := range transfers {
		from := mathrand.IntN(accounts)
		to := (from + 1 + mathrand.IntN(accounts-1)) % accounts
		if n%10 == 9 {
			to = accounts // was never opened
		}
		_, err := t.transfer(ctx, fmt.Sprintf("%s transfer %d", t.name, n), id(from), id(to), 1+mathrand.Int64N(each/2))
		if entity.CodeOf(err) == entity.FailedPrecondition {
			refused++
		} else if err != nil {
			return "", err
		}
	}
	for ctx, cancel := context.WithTimeout(ctx, 10*timeout); ; { // a send that fails is tried again after a minute at most
		total, onTheWay, inDoubt := int64(0), int64(0), int64(0)
		for i := range accounts {
			s, err := ask(ctx, t, bank.Show, id(i), bank.Nothing{})
			if err != nil {
				cancel()
				return "", err
			}
			total, onTheWay, inDoubt = total+s.Balance, onTheWay+s.OnTheWay, inDoubt+s.InDoubt
		}
		if onTheWay > 0 {
			select {
			case <-time.After(200 * time.Millisecond):
				continue
			case <-ctx.Done():
			}
		}
		cancel()
		if total != int64(accounts)*each {
			return "", fmt.Errorf("the total is %s, with %s on the way and %s in doubt; it was %s", cents(total), cents(onTheWay), cents(inDoubt), cents(int64(accounts)*each))
		}
		return fmt.Sprintf("%d transfers, %d refused for want of money; %s in all, before and after", transfers, refused, cents(total)), nil
	}
}

func show(s bank.Status, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case !s.Open && s.OnTheWay == 0:
		return "not open", nil
	}
	return fmt.Sprintf("%s, %s on the way", cents(s.Balance), cents(s.OnTheWay)), nil
}

func cents(n int64) string { return fmt.Sprintf("%d.%02d", n/100, n%100) }

// Command shop is a caller of the shop's entities: it fills the stock, buys, and shows carts.
//
//	shop receive tea 100
//	shop buy anna tea 2 450
//	shop cart anna
//	shop stock tea
//
// It uses the handles of version 1. Version 2 knows these commands too: callers are rolled
// out after regions.
//
// # What this does not do
//
// If a purchase ends between the stock and the cart, what was taken is in no cart. The same
// command line with the same -order finishes it, and takes and adds nothing twice.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	shop "github.com/roost-cluster/roost/examples/shop/v1"
	"github.com/roost-cluster/roost/sdk/client"
	"github.com/roost-cluster/roost/sdk/entity"
)

// timeout bounds a command line: a region that takes over needs some seconds.
const timeout = 20 * time.Second

const usage = `usage: shop [-gateway URL,URL] [-order NAME] COMMAND

  receive SKU COUNT             add to a stock
  stock SKU                     show a stock
  buy CUSTOMER SKU COUNT CENTS  take from a stock, and add to a cart
  cart CUSTOMER                 show a cart

`

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errUsage is a mistake in the command line.
var errUsage = errors.New("wrong usage; see shop -h")

// run runs the command line and returns the exit code: 0 done, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	flags := flag.NewFlagSet("shop", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.Usage = func() { fmt.Fprint(errOut, usage); flags.PrintDefaults() }
	gateway := flags.String("gateway", cmp.Or(os.Getenv("ROOST_GATEWAY"), "http://localhost:8080"), "URLs of gateways, with commas; env ROOST_GATEWAY")
	order := flags.String("order", "", "idempotency key of receive and buy; default: a new one")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	c, err := client.New(strings.Split(*gateway, ","))
	if err != nil {
		fmt.Fprintln(errOut, "shop:", err)
		return 2
	}
	var key []entity.CallOption
	if *order != "" {
		key = append(key, entity.Key(*order))
	}
	line, err := do(ctx, c, flags.Args(), key)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(errOut, "shop:", err)
		return 2
	case err != nil:
		fmt.Fprintln(errOut, "shop:", err)
		return 1
	}
	fmt.Fprintln(out, line)
	return 0
}

// do sends the commands of a command line, and returns the line to print.
func do(ctx context.Context, via entity.Caller, args []string, key []entity.CallOption) (string, error) {
	words, counts, ok := arguments(args)
	if !ok {
		return "", errUsage
	}
	switch args[0] {
	case "receive":
		level, err := shop.Receive.Call(ctx, via, words[0], shop.Quantity{Count: counts[0]}, key...)
		return stock(words[0], level), err
	case "stock":
		level, err := shop.InStock.Call(ctx, via, words[0], shop.Nothing{})
		return stock(words[0], level), err
	case "buy":
		if _, err := shop.Take.Call(ctx, via, words[1], shop.Quantity{Count: counts[0]}, key...); err != nil {
			return "", err
		}
		contents, err := shop.Add.Call(ctx, via, words[0], shop.AddItem{SKU: words[1], Count: counts[0], Price: counts[1]}, key...)
		return cart(contents), err
	default:
		contents, err := shop.Show.Call(ctx, via, words[0], shop.Nothing{})
		return cart(contents), err
	}
}

// arguments splits a command line into the words and the numbers after the command.
func arguments(args []string) (words []string, counts []int64, ok bool) {
	shape, known := map[string][2]int{"receive": {1, 1}, "stock": {1, 0}, "buy": {2, 2}, "cart": {1, 0}}, false
	if len(args) > 0 {
		_, known = shape[args[0]]
	}
	if !known || len(args) != 1+shape[args[0]][0]+shape[args[0]][1] {
		return nil, nil, false
	}
	words = args[1 : 1+shape[args[0]][0]]
	for _, text := range args[1+len(words):] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, nil, false
		}
		counts = append(counts, n)
	}
	return words, counts, true
}

func stock(sku string, level shop.Level) string {
	return fmt.Sprintf("%d %s in stock", level.Count, sku)
}

func cart(contents shop.Contents) string {
	var line strings.Builder
	for _, sku := range slices.Sorted(maps.Keys(contents.Items)) {
		fmt.Fprintf(&line, "%d %s, ", contents.Items[sku], sku)
	}
	fmt.Fprintf(&line, "%d.%02d in all", contents.Total/100, contents.Total%100)
	return line.String()
}

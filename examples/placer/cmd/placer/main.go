// Command placer places the shards of an entity type at the regions with a label, again and
// again, until it is interrupted.
//
// # What this does not do
//
// It keeps nothing: the coordinators store its pins. Two of them for one type and label ask for the same.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/roost-cluster/roost/examples/placer"
	"github.com/roost-cluster/roost/libs/adminclient"
)

func main() {
	typ := flag.String("type", "", "the entity type")
	label := flag.String("label", "", "the label of the regions, as name=value")
	coordinators := flag.String("coordinators", "http://localhost:8558", "URLs of the management of coordinators, with commas between")
	every := flag.Duration("every", 10*time.Second, "the pause between two rounds")
	flag.Parse()
	name, value, ok := strings.Cut(*label, "=")
	if *typ == "" || !ok || *every <= 0 {
		fmt.Fprintln(os.Stderr, "placer: --type and --label name=value are needed, and --every must be above 0")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := adminclient.New(strings.Split(*coordinators, ",")...)
	for ctx.Err() == nil {
		switch done, err := placer.Place(ctx, c, *typ, name, value); {
		case err != nil && ctx.Err() == nil:
			fmt.Fprintln(os.Stderr, "placer:", err) // the next round may do better
		case done.Changed > 0:
			fmt.Printf("%d shards of %s are wanted elsewhere\n", done.Changed, *typ)
		}
		select {
		case <-time.After(*every):
		case <-ctx.Done():
		}
	}
}

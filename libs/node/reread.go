package node

import (
	"context"
	"time"

	"github.com/roost-cluster/roost/libs/node/config"
)

// rereadEvery is the interval between checks of the configuration file: an operator who waits for
// an effect expects one by then.
const rereadEvery = 2 * time.Second

// Reread reads the configuration again whenever its file has changed, and calls apply with
// it: from file, environment and flags, as at the start. fresh returns a configuration with the
// defaults. live are the keys that apply puts into effect; others that have changed are logged as
// in need of a restart. A file that cannot be used changes nothing.
//
// Without a file, or if the node was not started by [Main], Reread does nothing.
func (n *Node) Reread(live []string, fresh func() config.Configured, apply func(config.Configured) error) {
	if n.sources == nil || n.sources.File == "" {
		return
	}
	r := config.NewReloader(n.sources, n.log, live, fresh, apply)
	n.Stage(Stage{Name: "configuration file", Run: func(ctx context.Context) error {
		tick := time.NewTicker(rereadEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.Reload()
			case <-ctx.Done():
				return nil
			}
		}
	}})
}

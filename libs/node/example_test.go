package node_test

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/setting"
)

// counterConfig is the whole configuration of a service.
type counterConfig struct {
	config.Config
	Step     int           `key:"counter.step" help:"what one request adds"`
	Interval time.Duration `key:"counter.interval" help:"time between two reports" range:">0"`
}

// Validate checks the ranges, as there are no conditions between settings.
func (c *counterConfig) Validate() error { return setting.Ranges(c) }

// The main of a service: defaults, handlers, a check, a stage.
func Example() {
	config := &counterConfig{Config: config.Default(":25530"), Step: 1, Interval: time.Minute}
	os.Exit(node.Main("counter", config, func(n *node.Node) error {
		n.Handle("POST /add", http.NotFoundHandler())
		n.Ready("journal", func(context.Context) error { return nil })
		n.Stage(node.Stage{
			Name: "reports",
			Run: func(ctx context.Context) error {
				ticker := time.NewTicker(config.Interval)
				defer ticker.Stop()
				for {
					select {
					case <-ticker.C:
						n.Log().Info("still counting")
					case <-ctx.Done():
						return nil
					}
				}
			},
			StopTimeout: time.Second,
		})
		return nil
	}))
}

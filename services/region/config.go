package region

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/table"
	"github.com/roost-cluster/roost/libs/turn"
)

// Config is what the region core needs to know.
type Config struct {
	Self sharding.NodeID
	Name string // of the node, for people
	// Turn holds the hosted types and the limits of entity execution.
	Turn turn.Config
	// Watch times the watch of the route table.
	Watch table.WatchConfig
	// BufferCommands and BufferBytes bound what waits per shard for its claim:
	// that wait is one commit long. Defaults 1,000 and 8 MiB. The limits of Turn
	// for all entities count what waits here too.
	BufferCommands int
	BufferBytes    int
	// Replies bounds what the region owes. Whoever brings commands asks a
	// [replies.Budget] before each: what finds no room waits with its connection.
	Replies replies.Config
	// Resend is the pause before an unanswered message to the coordinator is
	// repeated, and before an unanswered claim is. Default 200 ms.
	Resend time.Duration
	// LeaveTimeout is how long a leaving region waits for its shards to be
	// handed off. It covers one drain and the coordinator's slack. Default 20 s.
	LeaveTimeout time.Duration
}

// DefaultConfig is the configuration of a region that hosts the given types.
func DefaultConfig(self sharding.NodeID, name string, types ...turn.Type) Config {
	return Config{
		Self:           self,
		Name:           name,
		Turn:           turn.DefaultConfig(types...),
		Watch:          table.DefaultWatchConfig(),
		BufferCommands: 1000,
		BufferBytes:    8 << 20,
		Replies:        replies.DefaultConfig(),
		Resend:         200 * time.Millisecond,
		LeaveTimeout:   20 * time.Second,
	}
}

// Validate refuses a configuration that cannot work, naming every field.
func (c *Config) Validate() error {
	var errs []error
	if c.Self.Addr == "" || c.Self.UID == 0 {
		errs = append(errs, errors.New("region: Self needs an address and a uid"))
	}
	if c.BufferCommands <= 0 || c.BufferBytes <= 0 {
		errs = append(errs, errors.New("region: BufferCommands and BufferBytes must be above 0"))
	}
	if c.Resend <= 0 {
		errs = append(errs, errors.New("region: Resend must be above 0"))
	}
	if c.LeaveTimeout <= c.Turn.DrainTimeout {
		errs = append(errs, fmt.Errorf("region: LeaveTimeout %s must be above DrainTimeout %s, or leaving cuts drains short", c.LeaveTimeout, c.Turn.DrainTimeout))
	}
	return errors.Join(append(errs, c.Replies.Validate(), c.Watch.Validate(), c.Turn.Validate())...)
}

package region

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/routetable"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Config is what the region core needs to know.
type Config struct {
	Self sharding.NodeID
	Name string // of the node, for people
	// Version is the application version of the binary, or empty.
	Version string
	// Turn holds the hosted types and the limits of entity execution.
	Turn turn.Config
	// Watch times the watch of the route table.
	Watch routetable.WatchConfig
	// BufferCommands and BufferBytes bound what waits per shard for its claim:
	// that wait is one commit long. Defaults 1,000 and 8 MiB. The limits of Turn
	// for all entities count what waits here too.
	BufferCommands int
	BufferBytes    int
	// Replies bounds what the region owes. Whoever brings commands asks a
	// [replies.Queue] before each: what finds no room waits with its connection.
	Replies replies.Config
	// Resend is the pause before an unanswered message to the coordinator is
	// repeated, and before an unanswered claim is. Default 200 ms.
	Resend time.Duration
	// JournalPatience is for how long nothing may succeed at the journal, though
	// something is asked, before the region calls itself cut off from it: its
	// shards move then. Default 5 s: longer than a failover of the database's
	// network, shorter than most clients wait. 0: it never does.
	JournalPatience time.Duration
	// JournalProbe is for how long nothing succeeds before the region asks for
	// the sake of asking, and the pause between two reports. Default 1 s; at most
	// half of JournalPatience.
	JournalProbe time.Duration
	// JournalRecovery is how long the journal must answer again before the region
	// is given shards. Default 10 s: a connection that comes and goes must not
	// move them back and forth.
	JournalRecovery time.Duration
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
		Watch:          routetable.DefaultWatchConfig(),
		BufferCommands: 1000,
		BufferBytes:    8 << 20,
		Replies:        replies.DefaultConfig(),
		Resend:         200 * time.Millisecond,
		LeaveTimeout:   20 * time.Second,

		JournalPatience: 5 * time.Second,
		JournalProbe:    time.Second,
		JournalRecovery: 10 * time.Second,
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
	if c.JournalPatience < 0 || c.JournalProbe <= 0 || c.JournalRecovery <= 0 {
		errs = append(errs, errors.New("region: JournalPatience must not be negative, JournalProbe and JournalRecovery must be above 0"))
	} else if c.JournalPatience > 0 && 2*c.JournalProbe > c.JournalPatience {
		errs = append(errs, fmt.Errorf("region: JournalProbe %s must be at most half of JournalPatience %s, or one lost answer looks like silence", c.JournalProbe, c.JournalPatience))
	}
	if c.LeaveTimeout <= c.Turn.DrainTimeout {
		errs = append(errs, fmt.Errorf("region: LeaveTimeout %s must be above DrainTimeout %s, or leaving cuts drains short", c.LeaveTimeout, c.Turn.DrainTimeout))
	}
	return errors.Join(append(errs, c.Replies.Validate(), c.Watch.Validate(), c.Turn.Validate())...)
}

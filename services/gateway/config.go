package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/routetable"
)

// Config has the limits and times of the gateway core.
type Config struct {
	// DefaultTimeout is the time of a command without deadline. Default 5 s: longer
	// than a failover.
	DefaultTimeout time.Duration
	// MaxTimeout bounds deadlines, so that no command counts in the limits for ever. Default 60 s.
	MaxTimeout time.Duration
	// MaxWaiting and MaxWaitingBytes bound the commands of one shard, from
	// admission to answer. Defaults 1,000 commands and 8 MiB: one hot or moving
	// shard cannot use up the gateway.
	MaxWaiting      int
	MaxWaitingBytes int
	// MaxTotal and MaxTotalBytes bound the commands of the whole gateway. Defaults
	// 100,000 commands and 64 MiB.
	MaxTotal      int
	MaxTotalBytes int
	// DeferredShare is the share of the four limits above that commands may take which
	// wait for their shard to move, because the version that had it does not have the
	// command; others are refused at once. Default 0.1: in a rollout the callers of the
	// new version leave nine places of ten to those of the old one. 0: none wait.
	DeferredShare float64
	// MaxReplyBytes bounds the replies that clients have not received, and the
	// expected replies to commands in progress: a command without room is refused.
	// Default 256 MiB: several AskMany with the largest replies.
	MaxReplyBytes int
	// UnknownReply is the expected size for a kind of command without a reply so far.
	// Default 16 KiB: there is room for thousands.
	UnknownReply int
	// HomeInterval is the pause before GetShardHome is sent again. Default
	// 200 ms.
	HomeInterval time.Duration
	// UnkeyedWait is how long a moved shard waits for the answers to commands
	// that must not be repeated. Default 200 ms: a few round trips.
	UnkeyedWait time.Duration
	// Backoff is the pause of a shard after a region was temporarily unable to execute
	// a command. Default 100 ms.
	Backoff time.Duration
	// SendRetry is the pause of a shard after the buffer of its link was full. Default
	// 10 ms: a link drains in less.
	SendRetry time.Duration
	// RetryHint is how long clients are told to wait before they repeat a command that
	// was rejected for lack of room. Default 200 ms.
	RetryHint time.Duration
	// Watch times the watch of the route table.
	Watch routetable.WatchConfig
}

// DefaultConfig returns the configuration that suits most gateways.
func DefaultConfig() Config {
	return Config{
		DefaultTimeout:  5 * time.Second,
		MaxTimeout:      60 * time.Second,
		MaxWaiting:      1000,
		MaxWaitingBytes: 8 << 20,
		MaxTotal:        100_000,
		MaxTotalBytes:   64 << 20,
		DeferredShare:   0.1,
		MaxReplyBytes:   256 << 20,
		UnknownReply:    16 << 10,
		HomeInterval:    200 * time.Millisecond,
		UnkeyedWait:     200 * time.Millisecond,
		Backoff:         100 * time.Millisecond,
		SendRetry:       10 * time.Millisecond,
		RetryHint:       200 * time.Millisecond,
		Watch:           routetable.DefaultWatchConfig(),
	}
}

// Validate returns an error that names every invalid field.
func (c *Config) Validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"DefaultTimeout", c.DefaultTimeout}, {"HomeInterval", c.HomeInterval}, {"UnkeyedWait", c.UnkeyedWait},
		{"Backoff", c.Backoff}, {"SendRetry", c.SendRetry}, {"RetryHint", c.RetryHint},
	} {
		if f.value < time.Millisecond {
			errs = append(errs, fmt.Errorf("gateway: %s is %v, must be at least 1ms", f.name, f.value))
		}
	}
	if c.MaxTimeout < c.DefaultTimeout {
		errs = append(errs, fmt.Errorf("gateway: MaxTimeout %v must not be below DefaultTimeout %v", c.MaxTimeout, c.DefaultTimeout))
	}
	if c.MaxWaiting <= 0 || c.MaxWaitingBytes <= 0 {
		errs = append(errs, errors.New("gateway: MaxWaiting and MaxWaitingBytes must be above 0"))
	}
	if c.MaxTotal < c.MaxWaiting || c.MaxTotalBytes < c.MaxWaitingBytes {
		errs = append(errs, errors.New("gateway: MaxTotal and MaxTotalBytes must not be below MaxWaiting and MaxWaitingBytes, the limits per shard"))
	}
	if !(c.DeferredShare >= 0 && c.DeferredShare <= 1) { // neither is NaN
		errs = append(errs, fmt.Errorf("gateway: DeferredShare is %v, set 0 to 1", c.DeferredShare))
	}
	if c.UnknownReply < replies.Overhead || c.MaxReplyBytes < c.UnknownReply {
		errs = append(errs, fmt.Errorf("gateway: UnknownReply is %d and MaxReplyBytes %d, set %d <= UnknownReply <= MaxReplyBytes",
			c.UnknownReply, c.MaxReplyBytes, replies.Overhead))
	}
	return errors.Join(append(errs, c.Watch.Validate())...)
}

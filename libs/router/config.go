package router

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/routetable"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Config has the limits and times of a router.
type Config struct {
	// Process names this process in texts for clients. Default "gateway".
	Process string
	// ReplyKey is the complete key of MaxReplyBytes in this process, for those
	// texts. Default "gateway.reply_bytes".
	ReplyKey string
	// Fed is true if a core of this process watches the route table and sends it to the router, by
	// [TableChange]. The router then polls no coordinator. Default false: the router watches the table
	// itself.
	Fed bool
	// Management is the operators' address of this process, for the cards that report to the active
	// coordinator how its clients fare. Default "": it sends no cards.
	Management string
	// Peers is the address at which this process answers other processes by TLS, for the same cards. Default "": nowhere.
	Peers string
	// CardInterval is the shortest time that a card covers. Default 500 ms: less than the second that a
	// coordinator holds a poll, so that each poll has a card.
	CardInterval time.Duration `range:"1ms.."`
	// LinkIdle is the time that a link stays up without commands. If it is set, a link is opened when the
	// first command needs it. LinkIdle must be above MaxTimeout, so that no command waits for a link that
	// is closed. Default 0: there is a link to every region that a row names. Gateways send to all regions,
	// but the entities of a region send to few.
	LinkIdle time.Duration `key:"link_idle" help:"if no command was sent over a link for this time, the link is closed. Must be above 1m, the longest time that a command has" range:"0.." expert:"true"`
	// DefaultTimeout is the time of a command without deadline. Default 5 s: longer
	// than a failover.
	DefaultTimeout time.Duration `key:"timeout" help:"time that a command has if its client names no time. Should be longer than a failover" range:"1ms.."`
	// MaxTimeout bounds deadlines, so that no command counts in the limits forever. Default 60 s.
	MaxTimeout time.Duration `key:"max_timeout" help:"longest time that a command may have. If a client names a longer time, the command has this time"`
	// AnswerReserve is the time before the command's deadline by when the region must answer. If a tenth
	// of the remaining time is less, that is used instead. So the last answer of the region still arrives.
	// It may report that nothing was applied; without it, the command would be in doubt. Default 100 ms: a
	// round trip to a busy region. 0: no earlier.
	AnswerReserve time.Duration `range:"0.."`
	// MaxWaiting and MaxWaitingBytes bound the commands of one shard, from
	// admission to answer. Defaults 1,000 commands and 8 MiB: one hot or moving
	// shard cannot use up the router.
	MaxWaiting      int           `key:"shard_commands" unit:"commands" help:"the most commands to one shard that are sent and not yet answered. So one hot or moving shard cannot use up {.commands}. Further commands to that shard are refused as resource_exhausted" range:"1.." expert:"true"`
	MaxWaitingBytes setting.Bytes `key:"shard_bytes" help:"the largest total size of the commands to one shard that are sent and not yet answered. Further commands to that shard are refused as resource_exhausted" range:">0" expert:"true"`
	// MaxTotal and MaxTotalBytes bound the commands of the whole router. Defaults
	// 100,000 commands and 64 MiB.
	MaxTotal      int           `key:"commands" unit:"commands" help:"the most commands that are sent and not yet answered, from all clients of a gateway, or from all entities of a region to other entities. Further commands are refused as resource_exhausted" range:"1.."`
	MaxTotalBytes setting.Bytes `key:"command_bytes" help:"the largest total size of the commands that are sent and not yet answered. Further commands are refused as resource_exhausted" range:">0"`
	// DeferredShare is the share of the four limits above that deferred commands may take. A deferred
	// command waits until its shard moves, because the version of the present owner does not have the
	// command. Beyond the share, such commands are refused at once. Default 0.1: in a rollout, callers of
	// the new version leave nine of ten places to callers of the old version. 0: no command is deferred.
	DeferredShare float64 `key:"deferred_share" help:"share (0 to 1) of {.commands}, {.command_bytes}, {.shard_commands} and {.shard_bytes} that deferred commands may use. A deferred command waits until its shard has moved, because the present region runs a version without that command. Further such commands are refused at once. 0: no command is deferred" range:"0..1" expert:"true"`
	// MaxReplyBytes bounds the replies that clients have not received, and the
	// expected replies to commands in progress: a command without room is refused.
	// Default 256 MiB: several AskMany with the largest replies.
	MaxReplyBytes setting.Bytes `key:"reply_bytes" help:"the largest total size of replies: replies that were not taken yet, and expected replies to commands that are not yet answered. Further commands are refused as resource_exhausted" range:">0" expert:"true"`
	// UnknownReply is the expected size for a kind of command without a reply so far.
	// Default 16 KiB: there is room for thousands.
	UnknownReply int
	// HomeInterval is the pause before GetShardHome is sent again. Default
	// 200 ms.
	HomeInterval time.Duration `range:"1ms.."`
	// UnkeyedWait is the time that a moved shard waits for the answers to commands that must not be
	// repeated. Default 200 ms: a few round trips.
	UnkeyedWait time.Duration `range:"1ms.."`
	// Backoff is the pause of a command after a region could not execute it, or has left its
	// outcome in doubt, before it is sent again. It doubles each time up to BackoffMax, and a
	// random part of up to a half is subtracted. Defaults 100 ms and 2 s: a disturbance that
	// ends costs little, and a command that fails permanently has some ten turns until its
	// deadline instead of hundreds.
	Backoff    time.Duration `range:"1ms.."`
	BackoffMax time.Duration
	// Seed is the seed of the random part.
	Seed uint64
	// SendRetry is the pause of a shard after the buffer of its link was full. Default
	// 10 ms: a link drains in less.
	SendRetry time.Duration `range:"1ms.."`
	// RetryHint is the pause that a rejection for lack of room asks clients to make before they
	// retry. Default 200 ms.
	RetryHint time.Duration `range:"1ms.."`
	// Watch times the watch of the route table.
	Watch routetable.WatchConfig
}

// DefaultConfig returns the configuration of a gateway.
func DefaultConfig() Config {
	return Config{
		Process:         "gateway",
		ReplyKey:        "gateway.reply_bytes",
		CardInterval:    500 * time.Millisecond,
		DefaultTimeout:  5 * time.Second,
		MaxTimeout:      60 * time.Second,
		AnswerReserve:   100 * time.Millisecond,
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
		BackoffMax:      2 * time.Second,
		SendRetry:       10 * time.Millisecond,
		RetryHint:       200 * time.Millisecond,
		Watch:           routetable.DefaultWatchConfig(),
	}
}

// Stopping is the reply to a command that comes when the process stops.
func (c *Config) Stopping() sharding.Reply {
	return sharding.Reject(sharding.Unavailable, "not applied: this "+c.Process+" is stopping")
}

// Validate returns an error that names every field with an unusable value.
func (c *Config) Validate() error {
	errs := []error{setting.Ranges(c)}
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	if c.BackoffMax < c.Backoff {
		errs = append(errs, fmt.Errorf("router: BackoffMax is %v, must be at least Backoff, which is %v", c.BackoffMax, c.Backoff))
	}
	if c.MaxTimeout < c.DefaultTimeout {
		bad("max_timeout", "is %v, must not be below %s (%v)", c.MaxTimeout, setting.Key("timeout"), c.DefaultTimeout)
	}
	if c.LinkIdle != 0 && c.LinkIdle <= c.MaxTimeout {
		bad("link_idle", "is %v, must be 0 or above %v, the longest time that a command has, or links are closed under commands that wait for them", c.LinkIdle, c.MaxTimeout)
	}
	if c.MaxTotal < c.MaxWaiting {
		bad("commands", "is %d, must not be below %s (%d)", c.MaxTotal, setting.Key("shard_commands"), c.MaxWaiting)
	}
	if c.MaxTotalBytes < c.MaxWaitingBytes {
		bad("command_bytes", "is %s, must not be below %s (%s)", c.MaxTotalBytes, setting.Key("shard_bytes"), c.MaxWaitingBytes)
	}
	if c.UnknownReply < replies.Overhead {
		errs = append(errs, fmt.Errorf("router: UnknownReply is %d, must be at least %d", c.UnknownReply, replies.Overhead))
	}
	if least := setting.Bytes(c.UnknownReply); c.MaxReplyBytes < least {
		bad("reply_bytes", "is %s, must be at least %s, the expected size of an unknown reply", c.MaxReplyBytes, least)
	}
	return errors.Join(errs...)
}

// CheckRoom returns an error unless a command with a payload of a length, and the longest reply, find room. Validate
// does not check this, because tests have small limits.
func (c *Config) CheckRoom(payload setting.Bytes) error {
	var errs []error
	if c.MaxWaitingBytes <= payload {
		errs = append(errs, setting.Errorf("shard_bytes", "is %s, must be above %s, or the longest command never finds room", c.MaxWaitingBytes, payload))
	}
	if least := setting.Bytes(2 * sharding.MaxPayload); c.MaxReplyBytes < least {
		errs = append(errs, setting.Errorf("reply_bytes", "is %s, must be at least %s, twice the longest reply, or large ones never find room", c.MaxReplyBytes, least))
	}
	return errors.Join(errs...)
}

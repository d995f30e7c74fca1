package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Config is the timing of a Holder. All candidates of a lease should use the
// same; safety holds if they do not, because the record carries its own TTL.
type Config struct {
	// Self is written into the record: uid and service address. Required.
	Self sharding.NodeID
	// Seed makes nonces and jitter; it must differ between all Holders that
	// ever use the same Self. The Keeper draws it at random if it is 0.
	Seed uint64
	// TTL is the time that the writer of the record may act after a write. Default 2 s: after a
	// crash of the holder the lease is free after this.
	TTL time.Duration `key:"ttl" range:">0..1h" help:"time that the lease is valid without renewal. After the active coordinator has died, no coordinator decides anything for this time"`
	// RenewEvery is the time between the starts of two renewals, if it is not shortened. Default 500 ms: three renewals may fail.
	RenewEvery time.Duration `key:"renew" range:">0..1h" help:"time between two renewals of the lease" expert:"true"`
	// Jitter is the fraction, in [0, 0.5], that RenewEvery may be shortened by, at random. Default
	// 0.2, so that standbys do not read in lockstep.
	Jitter float64 `range:"0..0.5"`
	// Margin is subtracted from the TTL by the holder alone. Default 200 ms: it
	// covers clock rates that differ by 10 %.
	Margin time.Duration `range:">0..1h"`
	// OpTimeout is the time after which a request to the store counts as lost.
	// Default 500 ms: after a renewal without an answer there is time for two reads.
	OpTimeout time.Duration `range:">0..1h"`
	// RetryEvery is the pause before a failed request is repeated while it
	// matters, and between two reads of a standby that looks for a renewal. Default 100 ms: so
	// much later than the lease ends, a standby may take it to be free.
	RetryEvery time.Duration `range:">0..1h"`
	// RankDelay is the time that a candidate waits per candidate before it in line, when the lease
	// is free. Default 300 ms: more than a round trip and a tick, so that the first in line wins
	// when it is well.
	RankDelay time.Duration `range:">0..1h"`
	// CheckEvery is the time between two self-tests of the store by the Keeper,
	// see Check. Default 1 h: finds a store that has become read-only on a
	// standby, which otherwise only reads.
	CheckEvery time.Duration `range:"1s.."`
	// Rank is the initial place in line: 0 is first, negative is not a candidate.
	// See SetRank. Default 0.
	Rank int
}

// MaxRank bounds the place in line; the delay does not grow any more after it.
const MaxRank = 64

// DefaultConfig returns the defaults named at the fields; Self is left to set.
func DefaultConfig() Config {
	return Config{
		TTL:        2 * time.Second,
		RenewEvery: 500 * time.Millisecond,
		Jitter:     0.2,
		Margin:     200 * time.Millisecond,
		OpTimeout:  500 * time.Millisecond,
		RetryEvery: 100 * time.Millisecond,
		RankDelay:  300 * time.Millisecond,
		CheckEvery: time.Hour,
	}
}

// Validate returns an error that names every setting and field with an unusable value. It does not look at Self, which a
// process knows later than its settings; [NewHolder] does.
func (c *Config) Validate() error {
	errs := []error{setting.Ranges(c)}
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	room := c.OpTimeout + c.Margin
	if c.TTL <= room {
		bad("ttl", "is %s, must be above %s, or there is no time for a renewal", c.TTL, room)
	} else if c.RenewEvery >= c.TTL-room {
		bad("renew", "is %s, must be shorter than %s (%s) by more than %s, or one lost reply loses the lease", c.RenewEvery, setting.Key("ttl"), c.TTL, room)
	}
	if c.Margin < c.TTL/100 {
		bad("ttl", "is %s, must be at most %s: clocks drift, and the holder gives up the lease only %s early", c.TTL, 100*c.Margin, c.Margin)
	}
	return errors.Join(errs...)
}

// check is [Config.Validate] with Self. Its errors wrap ErrConfig.
func (c *Config) check() error {
	err := c.Validate()
	if c.Self.UID == 0 || c.Self.Addr == "" {
		err = errors.Join(err, fmt.Errorf("Self is %v; set uid and service address", c.Self))
	}
	return setting.Wrap(ErrConfig, err)
}

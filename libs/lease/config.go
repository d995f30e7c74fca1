package lease

import (
	"errors"
	"fmt"
	"time"

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
	TTL time.Duration
	// RenewEvery is the time between the starts of two renewals, if it is not shortened. Default 500 ms: three renewals may fail.
	RenewEvery time.Duration
	// Jitter is the fraction, in [0, 0.5], that RenewEvery may be shortened by, at random. Default
	// 0.2, so that standbys do not read in lockstep.
	Jitter float64
	// Margin is subtracted from the TTL by the holder alone. Default 200 ms: it
	// covers clock rates that differ by 10 %.
	Margin time.Duration
	// OpTimeout is the time after which a request to the store counts as lost.
	// Default 500 ms: after a renewal without an answer there is time for two reads.
	OpTimeout time.Duration
	// RetryEvery is the pause before a failed request is repeated while it
	// matters, and between two reads of a standby that looks for a renewal. Default 100 ms: so
	// much later than the lease ends, a standby may take it to be free.
	RetryEvery time.Duration
	// RankDelay is the time that a candidate waits per candidate before it in line, when the lease
	// is free. Default 300 ms: more than a round trip and a tick, so that the first in line wins
	// when it is well.
	RankDelay time.Duration
	// CheckEvery is the time between two self-tests of the store by the Keeper,
	// see Check. Default 1 h: finds a store that has become read-only on a
	// standby, which otherwise only reads.
	CheckEvery time.Duration
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

// Validate names every invalid field, and what would be valid. Errors wrap
// ErrConfig.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...)))
	}
	if c.Self.UID == 0 || c.Self.Addr == "" {
		bad("Self is %v; set uid and service address", c.Self)
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"TTL", c.TTL}, {"RenewEvery", c.RenewEvery}, {"Margin", c.Margin}, {"OpTimeout", c.OpTimeout},
		{"RetryEvery", c.RetryEvery}, {"RankDelay", c.RankDelay}} {
		if f.value <= 0 || f.value > time.Hour {
			bad("%s is %v; it must be above 0 and at most 1h", f.name, f.value)
		}
	}
	if c.CheckEvery < time.Second {
		bad("CheckEvery is %v; it must be at least 1s", c.CheckEvery)
	}
	if !(c.Jitter >= 0 && c.Jitter <= 0.5) {
		bad("Jitter is %v; it must be between 0 and 0.5", c.Jitter)
	}
	if c.Margin < c.TTL/100 {
		bad("Margin is %v; it must be at least a hundredth of TTL %v, for clocks that drift", c.Margin, c.TTL)
	}
	if c.RenewEvery+c.OpTimeout >= c.TTL-c.Margin {
		bad("RenewEvery %v + OpTimeout %v must be less than TTL %v - Margin %v, or one lost reply loses the lease",
			c.RenewEvery, c.OpTimeout, c.TTL, c.Margin)
	}
	return errors.Join(errs...)
}

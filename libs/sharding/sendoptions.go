package sharding

import (
	"errors"
	"fmt"
	"time"
)

// SendOptions say how a send is delivered. What is zero is decided by the settings of the region that delivers it.
type SendOptions struct {
	// Timeout is the longest time that one attempt may take, with the handler of the target.
	Timeout time.Duration
	// RetryMin is the pause after the first attempt that has failed. It doubles with each further failure, up to
	// RetryMax. Both are zero, or none is.
	RetryMin, RetryMax time.Duration
	// MaxAge bounds the age of the send, counted from when it was stored: an older one is not tried
	// any more.
	MaxAge time.Duration
}

// Bounds of SendOptions.
const (
	// MinSendTime is the shortest time of each option: a region looks for due sends every 20 ms.
	MinSendTime = 20 * time.Millisecond
	// MaxSendTimeout is the longest Timeout: links and routers are made for commands that take no longer.
	MaxSendTimeout = time.Minute
	// MaxSendRetry is the longest RetryMax: few sends become older.
	MaxSendRetry = 24 * time.Hour
)

// Check returns an error that names every option with an unusable value. The largest MaxAge is for the region to check:
// it depends on how long targets remember keys.
func (o *SendOptions) Check() error {
	var errs []error
	if o.Timeout != 0 && (o.Timeout < MinSendTime || o.Timeout > MaxSendTimeout) {
		errs = append(errs, fmt.Errorf("Timeout is %s, must be %s to %s; 0: the setting of the region decides", o.Timeout, MinSendTime, MaxSendTimeout))
	}
	if (o.RetryMin != 0 || o.RetryMax != 0) && (o.RetryMin < MinSendTime || o.RetryMax < o.RetryMin || o.RetryMax > MaxSendRetry) {
		errs = append(errs, fmt.Errorf("Retry is %s to %s, must be within %s to %s, the first pause at most as long as the longest one; both 0: the settings of the region decide", o.RetryMin, o.RetryMax, MinSendTime, MaxSendRetry))
	}
	if o.MaxAge != 0 && o.MaxAge < MinSendTime {
		errs = append(errs, fmt.Errorf("MaxAge is %s, must be at least %s; 0: the setting of the region decides", o.MaxAge, MinSendTime))
	}
	return errors.Join(errs...)
}

package sharding_test

import (
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

func TestSendOptions(t *testing.T) {
	for _, good := range []sharding.SendOptions{
		{}, {Timeout: sharding.MinSendTime}, {Timeout: sharding.MaxSendTimeout}, {MaxAge: sharding.MinSendTime}, {MaxAge: 1 << 62},
		{RetryMin: sharding.MinSendTime, RetryMax: sharding.MinSendTime}, {RetryMin: time.Second, RetryMax: sharding.MaxSendRetry},
	} {
		if err := good.Check(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, bad := range []struct {
		o    sharding.SendOptions
		want string
	}{
		{sharding.SendOptions{Timeout: sharding.MinSendTime - 1}, "Timeout is 19.999999ms, must be 20ms to 1m0s; 0: "},
		{sharding.SendOptions{Timeout: sharding.MaxSendTimeout + 1}, "Timeout is 1m0.000000001s, must be 20ms to 1m0s"},
		{sharding.SendOptions{RetryMin: time.Second}, "Retry is 1s to 0s, must be within 20ms to 24h0m0s"},
		{sharding.SendOptions{RetryMax: time.Second}, "Retry is 0s to 1s"},
		{sharding.SendOptions{RetryMin: time.Minute, RetryMax: time.Second}, "Retry is 1m0s to 1s"},
		{sharding.SendOptions{RetryMin: time.Minute, RetryMax: sharding.MaxSendRetry + 1}, "Retry is 1m0s to 24h"},
		{sharding.SendOptions{MaxAge: -1}, "MaxAge is -1ns, must be at least 20ms"},
	} {
		if err := bad.o.Check(); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%+v: %v, want %s", bad.o, err, bad.want)
		}
	}
}

package entity_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// TestLimits: authors see the limits and codes that Roost enforces.
func TestLimits(t *testing.T) {
	for name, c := range map[string][2]any{
		"MaxNameLen":         {entity.MaxNameLen, sharding.MaxTypeLen},
		"MaxIDLen":           {entity.MaxIDLen, sharding.MaxIDLen},
		"MaxKeyLen":          {entity.MaxKeyLen, sharding.MaxCommandIDLen},
		"MaxPayload":         {entity.MaxPayload, sharding.MaxPayload},
		"MaxShards":          {entity.MaxShards, sharding.MaxShards},
		"DefaultShards":      {entity.DefaultShards, sharding.DefaultShards},
		"MaxSends":           {entity.MaxSends, instance.MaxSends},
		"MaxReminders":       {entity.MaxReminders, instance.MaxReminders},
		"MaxReminderNameLen": {entity.MaxReminderNameLen, sharding.MaxWakeNameLen},
		"MaxReminderYear":    {entity.MaxReminderYear, instance.MaxReminderYear},
		"MinReminderPeriod":  {entity.MinReminderPeriod, instance.MinReminderPeriod},
		"MinTimerInterval":   {entity.MinTimerInterval, instance.MinTimerInterval},
		"MaxTrimmedEvery":    {entity.MaxTrimmedEvery, turn.MaxTrimmedEvery},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %v, and %v is enforced", name, c[0], c[1])
		}
	}
	for code, want := range map[entity.Code]sharding.Code{
		entity.InvalidArgument: sharding.InvalidArgument, entity.NotFound: sharding.NotFound, entity.AlreadyExists: sharding.AlreadyExists,
		entity.Aborted: sharding.Aborted, entity.Unauthenticated: sharding.Unauthenticated, entity.PermissionDenied: sharding.PermissionDenied,
		entity.FailedPrecondition: sharding.FailedPrecondition, entity.OutOfRange: sharding.OutOfRange, entity.ResourceExhausted: sharding.ResourceExhausted,
		entity.Unimplemented: sharding.Unimplemented, entity.Unavailable: sharding.Unavailable, entity.DeadlineExceeded: sharding.DeadlineExceeded,
		entity.Internal: sharding.Internal, entity.DataLoss: sharding.DataLoss, entity.ReplyLost: sharding.ReplyLost, entity.KeyExpired: sharding.KeyExpired,
	} {
		if string(code) != string(want) {
			t.Errorf("%s is not %s", code, want)
		}
	}
}

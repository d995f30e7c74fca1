package operate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/operate"
)

var (
	began     = time.UnixMilli(1_000_000)
	shard     = sharding.ShardID{Type: "T", Index: 1}
	errAway   = errors.New("connection refused")
	errSilent = errors.New("connection reset")
	done      = operate.Answered{Reply: sharding.Reply{Outcome: sharding.Executed}}
	no        = operate.Answered{Reply: sharding.Reject(sharding.FailedPrecondition, "sold out")}
	perish    = operate.Answered{Reply: sharding.Doubt(sharding.Unavailable, "lost")}
)

// serves reports a region that serves the shard at an epoch.
func serves(epoch sharding.Epoch) operate.Found {
	return operate.Found{Row: sharding.Row{Shard: shard, Phase: sharding.Serving, Epoch: epoch}, Region: fmt.Sprint("region-", uint64(epoch)), Types: []sharding.EntityType{"T"}}
}

func with(f operate.Found, change func(*operate.Found)) operate.Found {
	change(&f)
	return f
}

// play gives inputs to a machine, 100 ms after each other, and returns the outputs in short.
func play(inputs []operate.Input) (trace []string) {
	m := operate.New(operate.DefaultConfig(), began.Add(time.Second))
	for i, in := range inputs {
		now := began.Add(time.Duration(i) * 100 * time.Millisecond)
		for _, o := range m.Step(now, in) {
			switch o := o.(type) {
			case operate.Find:
				trace = append(trace, fmt.Sprint("find ", o.Target))
			case operate.Allocate:
				trace = append(trace, fmt.Sprint("allocate above ", uint64(o.Refused)))
			case operate.Send:
				trace = append(trace, fmt.Sprint("send at ", uint64(o.Row.Epoch)))
			case operate.Wait:
				trace = append(trace, fmt.Sprint("wait ", o.Until.Sub(now)))
			case operate.End:
				if o.Err != nil {
					trace = append(trace, "not tried: "+o.Err.Error())
					continue
				}
				trace = append(trace, strings.TrimSpace(fmt.Sprint(o.Region, " ", o.Reply.Outcome, " ", o.Reply.Code, " ", o.Reply.Message)))
			}
		}
	}
	return trace
}

var cases = []struct {
	name   string
	inputs []operate.Input
	want   []string
}{
	{"answered", []operate.Input{operate.Begin{}, serves(5), done, operate.Tick{}}, []string{"find true", "send at 5", "region-5 executed"}},
	{"refused", []operate.Input{operate.Begin{}, serves(5), no}, []string{"find true", "send at 5", "region-5 not_applied failed_precondition sold out"}},
	{"the region itself does not know", []operate.Input{operate.Begin{}, serves(5), perish}, []string{"find true", "send at 5", "region-5 unknown unavailable lost"}},
	{"a region that cannot be reached leaves no doubt", []operate.Input{operate.Begin{}, serves(5), operate.Failed{Err: errAway}, operate.Tick{}, serves(5), no},
		[]string{"find true", "send at 5", "wait 100ms", "find true", "send at 5", "region-5 not_applied failed_precondition sold out"}},
	{"an attempt that was not answered is in doubt", []operate.Input{operate.Begin{}, serves(5), operate.Failed{Sent: true, Err: errSilent}, operate.Tick{}, serves(5), no},
		[]string{"find true", "send at 5", "wait 100ms", "find false", "send at 5", "region-5 unknown failed_precondition it may have been applied; send it again under the same key: sold out"}},
	{"a repeat has its reply", []operate.Input{operate.Begin{}, serves(5), operate.Failed{Sent: true, Err: errSilent}, operate.Tick{}, serves(6), done},
		[]string{"find true", "send at 5", "wait 100ms", "find false", "send at 6", "region-6 executed"}},
	{"a refused epoch is not used again", []operate.Input{operate.Begin{}, serves(5), operate.NotMine{}, operate.Tick{}, serves(5), operate.Tick{}, serves(4), operate.Tick{}, serves(6), done},
		[]string{"find true", "send at 5", "wait 100ms", "find true", "allocate above 5", "wait 100ms", "find true", "allocate above 5", "wait 100ms", "find true", "send at 6", "region-6 executed"}},
	{"that it is not theirs leaves no doubt", []operate.Input{operate.Begin{}, serves(5), operate.NotMine{}, operate.CallerGone{}},
		[]string{"find true", "send at 5", "wait 100ms", "not_applied deadline_exceeded not applied within its time: the shard is moving"}},
	{"a shard without a region", []operate.Input{operate.Begin{}, operate.Found{Row: sharding.Row{Shard: shard}}, operate.Tick{}, with(serves(5), func(f *operate.Found) { f.Row.Phase = sharding.Serving + 1 }), operate.CallerGone{}},
		[]string{"find true", "allocate above 0", "wait 100ms", "find true", "allocate above 0", "wait 100ms", "not_applied deadline_exceeded not applied within its time: no region serves shard T/1 at the moment"}},
	{"late", []operate.Input{operate.Begin{}, serves(5), operate.Failed{Err: errAway}, operate.Tick{}, serves(5), operate.Failed{Err: errAway}, operate.Tick{}, serves(5), operate.CallerGone{}, operate.Tick{}},
		[]string{"find true", "send at 5", "wait 100ms", "find true", "send at 5", "wait 100ms", "find true", "send at 5",
			"unknown deadline_exceeded it may have been applied; send it again under the same key: not applied within its time: connection refused"}},
	{"late after a doubt", []operate.Input{operate.Begin{}, serves(5), operate.Failed{Sent: true, Err: errSilent}, operate.CallerGone{}},
		[]string{"find true", "send at 5", "wait 100ms", "unknown deadline_exceeded it may have been applied; send it again under the same key: not applied within its time: connection reset"}},
	{"its time is over", append([]operate.Input{operate.Begin{}}, slices.Repeat([]operate.Input{operate.Found{Row: sharding.Row{Shard: shard}}, operate.Tick{}}, 5)...),
		append(slices.Repeat([]string{"find true", "allocate above 0", "wait 100ms"}, 5), "not_applied deadline_exceeded not applied within its time: no region serves shard T/1 at the moment")},
	{"a standby", []operate.Input{operate.Begin{}, operate.NotFound{Err: errAway}}, []string{"find true", "not tried: connection refused"}},
	{"its time is over while it is looked up where the entity is", append([]operate.Input{operate.Begin{}}, append(
		slices.Repeat([]operate.Input{operate.Found{Row: sharding.Row{Shard: shard}}, operate.Tick{}}, 4), operate.Found{Row: sharding.Row{Shard: shard}}, operate.NotFound{Err: errAway})...),
		append(slices.Repeat([]string{"find true", "allocate above 0", "wait 100ms"}, 5), "not_applied deadline_exceeded not applied within its time: no region serves shard T/1 at the moment")},
	{"a standby after a doubt", []operate.Input{operate.Begin{}, serves(5), operate.Failed{Sent: true, Err: errSilent}, operate.Tick{}, operate.NotFound{Err: errAway}, operate.CallerGone{}},
		[]string{"find true", "send at 5", "wait 100ms", "find false", "wait 100ms", "unknown deadline_exceeded it may have been applied; send it again under the same key: not applied within its time: connection refused"}},
	{"no region reads the shard", []operate.Input{operate.Begin{}, with(serves(5), func(f *operate.Found) { f.Row.Reason = sharding.Unreadable })},
		[]string{"find true", "not_applied unavailable not applied: no running region reads the stored data of shard T/1; start one of a version that reads it, see roost rollout status"}},
	{"an undeclared target", []operate.Input{operate.Begin{}, with(serves(5), func(f *operate.Found) {
		f.Target, f.Types = sharding.Entity{Type: "Zoo", ID: "z"}, []sharding.EntityType{"T", "U"}
	})},
		[]string{"find true", "not_applied not_found not applied: the target is Zoo/z, and no region declares the type Zoo; declared are T, U. Start a region with that type, or drop the dead letter"}},
	{"a target that is declared", []operate.Input{operate.Begin{}, with(serves(5), func(f *operate.Found) { f.Target = sharding.Entity{Type: "T", ID: "z"} })},
		[]string{"find true", "send at 5"}},
}

// TestMachine: the steps with a command, and its outcome in the end.
func TestMachine(t *testing.T) { machine(t) }

func machine(t testing.TB) {
	for _, c := range cases {
		if got := play(c.inputs); !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", c.name, got, c.want)
		}
	}
}

// TestTimeouts: the time that an operator names is bounded, and one that overflows is none.
func TestTimeouts(t *testing.T) { timeouts(t) }

func timeouts(t testing.TB) {
	cfg := operate.DefaultConfig()
	for ms, want := range map[int64]time.Duration{0: cfg.Timeout, 1: time.Millisecond, 50_000: cfg.MaxTimeout, 50_001: 0, -1: 0, 1 << 62: 0, -1 << 63: 0, 10_000_000_000_000: 0} {
		got, err := cfg.TimeoutOf(ms)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("%d ms: %v, %v, want %v", ms, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), fmt.Sprint("timeout_ms is ", ms, "; choose at most 50000")) {
			t.Errorf("%d ms: %v names no field or limit", ms, err)
		}
	}
}

package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/e2e/cluster/netns"
)

// cuts cuts regions off the network, one at a time. The journal, a file, stays reachable;
// connections hang.
func (r *run) cuts() error {
	tb := &panicTB{}
	defer tb.close()
	var net *netns.Net
	if err := tb.try(func() { net = netns.New(tb) }); errors.Is(err, errSkipped) {
		r.report.Skipped = append(r.report.Skipped, "region cut off: "+err.Error())
		return nil
	} else if err != nil {
		return err
	}
	f, err := r.startFaultRun("cut", func(o *cluster.Options) { o.Address, o.Start = net.Address, net.Start })
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.ready(); err != nil {
		return err
	}
	return f.without("region cut off", "network cut", f.Sizes.Times, report.Target{}, report.Target{}, report.Target{AtMost: 6000},
		func(region string) (began time.Time, err error) {
			var others []string
			for _, p := range f.cluster.Processes() {
				if p.Name != region {
					others = append(others, p.Name)
				}
			}
			began = time.Now()
			return began, tb.try(func() { net.Cut(region, others...) })
		}, func(region string) error {
			if err := tb.try(net.Heal); err != nil {
				return err
			}
			err := f.cluster.Kill(region)
			if f.hasEnded(region) {
				return nil // without a kill: it was declared down
			}
			return err
		})
}

// errSkipped is wrapped when something cannot be measured here.
var errSkipped = errors.New("not possible")

// panicTB lets package netns run outside a test: what ends a test ends the function that
// try runs.
type panicTB struct{ cleanups []func() }

// aborted is the reason for ending a function.
type aborted struct{ error }

func (tb *panicTB) try(f func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case aborted:
			err = v.error
		default:
			panic(v)
		}
	}()
	f()
	return nil
}

func (tb *panicTB) close() {
	for _, f := range tb.cleanups {
		f()
	}
}

// Helper does nothing.
func (tb *panicTB) Helper() {}

// Cleanup keeps f for close.
func (tb *panicTB) Cleanup(f func()) { tb.cleanups = append(tb.cleanups, f) }

// Skip ends the function.
func (tb *panicTB) Skip(args ...any) {
	panic(aborted{fmt.Errorf("%w: %s", errSkipped, fmt.Sprint(args...))})
}

// Skipf ends the function.
func (tb *panicTB) Skipf(format string, args ...any) { tb.Skip(fmt.Sprintf(format, args...)) }

// Fatal ends the function.
func (tb *panicTB) Fatal(args ...any) { panic(aborted{errors.New(fmt.Sprint(args...))}) }

// Fatalf ends the function.
func (tb *panicTB) Fatalf(format string, args ...any) { panic(aborted{fmt.Errorf(format, args...)}) }

package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/e2e/cluster/netns"
)

// cuts takes regions off the network, one at a time. The journal, a file, stays
// in reach; connections hang.
func (r *run) cuts() error {
	b := &bed{}
	defer b.close()
	var net *netns.Net
	if err := b.try(func() { net = netns.New(b) }); errors.Is(err, errSkipped) {
		r.report.Skipped = append(r.report.Skipped, "region cut off: "+err.Error())
		return nil
	} else if err != nil {
		return err
	}
	h, err := r.victims("cut", func(o *cluster.Options) { o.Address, o.Start = net.Address, net.Start })
	if err != nil {
		return err
	}
	defer h.close()
	if err := h.ready(); err != nil {
		return err
	}
	return h.without("region cut off", "network cut", h.Sizes.Times, report.Target{}, report.Target{}, report.Target{AtMost: 6000},
		func(region string) (began time.Time, err error) {
			var others []string
			for _, p := range h.cluster.Processes() {
				if p.Name != region {
					others = append(others, p.Name)
				}
			}
			began = time.Now()
			return began, b.try(func() { net.Cut(region, others...) })
		}, func(region string) error {
			if err := b.try(net.Heal); err != nil {
				return err
			}
			err := h.cluster.Kill(region)
			if h.ended(region) {
				return nil // by itself, as one may that was declared down
			}
			return err
		})
}

// errSkipped is wrapped when something cannot be measured here.
var errSkipped = errors.New("not possible")

// bed is the user of a network: what ends a test ends the call that try makes.
type bed struct{ cleanups []func() }

// ended is why a call has.
type ended struct{ error }

func (b *bed) try(f func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case ended:
			err = v.error
		default:
			panic(v)
		}
	}()
	f()
	return nil
}

func (b *bed) close() {
	for _, f := range b.cleanups {
		f()
	}
}

// Helper does nothing.
func (b *bed) Helper() {}

// Cleanup keeps what close does.
func (b *bed) Cleanup(f func()) { b.cleanups = append(b.cleanups, f) }

// Skip ends a call.
func (b *bed) Skip(args ...any) { panic(ended{fmt.Errorf("%w: %s", errSkipped, fmt.Sprint(args...))}) }

// Skipf ends a call.
func (b *bed) Skipf(format string, args ...any) { b.Skip(fmt.Sprintf(format, args...)) }

// Fatal ends a call.
func (b *bed) Fatal(args ...any) { panic(ended{errors.New(fmt.Sprint(args...))}) }

// Fatalf ends a call.
func (b *bed) Fatalf(format string, args ...any) { panic(ended{fmt.Errorf(format, args...)}) }

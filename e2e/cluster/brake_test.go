package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// journalDelay is for how long a slow journal holds each packet, in each direction.
const journalDelay = 60 * time.Millisecond

// detour is a socket between the processes and their PostgreSQL server, which can be slow.
type detour struct {
	server string // the server's socket
	slow   atomic.Bool
}

// takeDetour has the regions and the coordinators of a run reach the journal by a detour, and moves
// one shard at a time. The lease is reached directly.
func takeDetour(r *run, o *launcher.Options) {
	where, err := url.Parse(r.journalURL)
	r.must(err)
	const socket = ".s.PGSQL.5432"
	dir, err := os.MkdirTemp("", "detour") // the path of a socket is short
	r.must(err)
	r.Cleanup(func() { _ = os.RemoveAll(dir) })
	r.detour = &detour{server: filepath.Join(where.Query().Get("host"), socket)}
	listener, err := net.Listen("unix", filepath.Join(dir, socket))
	r.must(err)
	r.must(os.Chmod(filepath.Join(dir, socket), 0o777))
	r.Cleanup(func() { _ = listener.Close() })
	go r.detour.serve(listener)
	where.RawQuery = url.Values{"host": {dir}}.Encode()
	r.journal(o, where.String())
	o.Args[launcher.Coordinator] = append(o.Args[launcher.Coordinator],
		"--allocation.max_handoffs=1", "--allocation.brake_window=2s", "--allocation.brake_pause=6s", "--allocation.brake_samples=100")
}

func (d *detour) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", d.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		go d.pass(client, server)
		go d.pass(server, client)
	}
}

// packet is the data that was read at a moment.
type packet struct {
	content []byte
	at      time.Time
}

// pass passes on what comes, later if the detour is slow. The order is kept, and no packet waits for
// the one before it longer than for itself.
func (d *detour) pass(from, to net.Conn) {
	packets := make(chan packet, 1024)
	go func() {
		defer func() { _ = to.Close() }()
		for p := range packets {
			if d.slow.Load() {
				time.Sleep(time.Until(p.at.Add(journalDelay)))
			}
			if _, err := to.Write(p.content); err != nil {
				_ = from.Close()
			}
		}
	}()
	defer close(packets)
	for {
		content := make([]byte, 16<<10)
		n, err := from.Read(content)
		if n > 0 {
			packets <- packet{content[:n], time.Now()}
		}
		if err != nil {
			if err != io.EOF {
				_ = from.Close()
			}
			return
		}
	}
}

// pinAll pins all lists to a region, or to none.
func (r *run) pinAll(region string) {
	r.Helper()
	var pins []*adminv1.Pin
	for i := range uint32(typeShards) {
		pins = append(pins, &adminv1.Pin{Type: "List", Index: i, Region: region})
	}
	r.steered(func(ctx context.Context, a *adminclient.Client) (*adminv1.SteerResponse, error) {
		return a.Pin(ctx, &adminv1.PinRequest{Pins: pins, By: operator})
	})
}

// brakes waits until the brake does something.
func (r *run) brakes(what string, so func(*adminv1.Brake) bool) (b *adminv1.Brake) {
	r.Helper()
	eventually(r.T, waitLimit, func() error {
		res, err := r.admin().Members(r.Context())
		if err != nil {
			return err
		}
		if b = res.Brake; !so(b) {
			return fmt.Errorf("the brake is %v, and should be %s; gateways are %v, and region-1 has %d shards", b, what, res.Gateways, r.shardsOf("region-1"))
		}
		return nil
	})
	return b
}

// slowJournal lets the journal become slow while shards move because of balance. They stop, and go on
// although it remains slow.
func slowJournal(r *run) {
	r.allocateAll()
	r.pinAll("region-1")
	eventually(r.T, 2*waitLimit, func() error {
		if n := r.shardsOf("region-1"); n < typeShards {
			return fmt.Errorf("region-1 has %d of %d shards", n, typeShards)
		}
		return nil
	})
	eventually(r.T, waitLimit, func() error { // and it is known what is usual
		res, err := r.admin().Members(r.Context())
		if err == nil && (len(res.Gateways) != 2 || res.UsualP99Us == 0 || res.P99Us > 2*res.UsualP99Us || res.Brake != nil) {
			err = fmt.Errorf("the p99 is %d µs, usually %d, of %v, the brake is %v", res.P99Us, res.UsualP99Us, res.Gateways, res.Brake)
		}
		return err
	})
	r.detour.slow.Store(true)
	began := time.Now()
	r.pinAll("")
	stopped := r.brakes("stopped", func(b *adminv1.Brake) bool { return b.GetState() == "stopped" })
	stoppedAfter := time.Since(began)
	left := r.shardsOf("region-1")
	r.brakes("trying one", func(b *adminv1.Brake) bool { return b.GetProbes() > 0 })
	if now := r.shardsOf("region-1"); now < left-2 { // one was in progress, and one is tried
		r.Errorf("region-1 had %d shards when moves were stopped, and has %d when one is tried", left, now)
	}
	eventually(r.T, 3*waitLimit, func() error {
		if n := r.shardsOf("region-1"); n > typeShards/2 {
			return fmt.Errorf("region-1 still has %d of %d shards", n, typeShards)
		}
		return nil
	})
	took := time.Since(began)
	r.detour.slow.Store(false)
	r.brakes("released", func(b *adminv1.Brake) bool { return b == nil })
	r.figure("stopped after %.0f s by a p99 of %d ms (usually %d), half of the shards moved after %.0f s", stoppedAfter.Seconds(), stopped.SlowUs/1000, stopped.UsualUs/1000, took.Seconds())
}

package driver

import (
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

var self = sharding.NodeID{Addr: "127.0.0.1:1", UID: 255}

// fakeRegion is a region in this process. It answers what it was given with the next Flush.
type fakeRegion struct {
	d      *Driver
	mu     sync.Mutex // guards err: a test changes it while the driver runs
	err    error      // of Queue
	silent bool
	queued []link.Command
	seen   []link.Command
}

func (r *fakeRegion) Queue(_ uint32, c *link.Command) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	r.queued = append(r.queued, *c)
	return nil
}

// fail makes Queue return the error from now on.
func (r *fakeRegion) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *fakeRegion) Flush() {
	var answers []link.Answer
	for _, c := range r.queued {
		answers = append(answers, link.Answer{Number: c.Number, Reply: sharding.Reply{Outcome: sharding.Executed, Payload: c.Envelope.Payload}})
	}
	r.seen, r.queued = append(r.seen, r.queued...), nil
	if !r.silent {
		r.d.Answers(answers)
	}
}

// newDriver returns a driver whose table has one shard, of this region.
func newDriver(t *testing.T) (*Driver, *fakeRegion) {
	t.Helper()
	links := link.DefaultConfig()
	links.Cluster, links.Self = "test", self
	core := router.DefaultConfig()
	core.Fed, core.LinkIdle = true, 10*time.Minute
	region := &fakeRegion{}
	d, err := New(Config{
		Core: core, Link: links, Local: region, Log: slog.New(slog.DiscardHandler),
		Send: func(sharding.NodeID, control.Message) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	region.d = d
	d.Put(router.TableChange{Delta: sharding.TableDelta{
		Full: true, Version: sharding.Version{Term: 1, N: 1},
		Types: []sharding.TypeDesc{{Type: "T", Shards: 1, Commands: []sharding.CommandDesc{{Name: "Do"}, {Name: "Get", ReadOnly: true}}}},
		Rows:  []sharding.Row{{Shard: sharding.ShardID{Type: "T"}, Owner: self, Epoch: 1 << 32, Phase: sharding.Serving}},
	}})
	return d, region
}

// call makes a numbered call. Its reply goes into ended.
func call(d *Driver, command string, ended *[]sharding.Reply) *Call {
	c := &Call{Env: sharding.Envelope{Entity: sharding.Entity{Type: "T", ID: "x"}, Command: command}}
	d.Number(c)
	c.End = func(f *router.Finish) {
		*ended = append(*ended, f.Reply)
		d.Delivered(f.Held)
	}
	return c
}

// TestLocal: a command for a region in this process is answered, and its region knows when it
// can take it no more than a link does.
func TestLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, region := newDriver(t)
		go d.Run()
		defer d.End()
		var ended []sharding.Reply
		first := call(d, "Do", &ended)
		first.Env.Trace = "a trace"
		if err := d.Submit(first, call(d, "Do", &ended)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(ended) != 2 || ended[0].Outcome != sharding.Executed || len(region.seen) != 2 || region.seen[0].Epoch != 1<<32 || region.seen[0].Envelope.Trace != "a trace" {
			t.Fatalf("%+v, the region has seen %+v", ended, region.seen)
		}
		region.fail(link.ErrBackpressure)
		if err := d.Submit(call(d, "Do", &ended)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(ended) != 2 {
			t.Fatalf("a command that found no room has ended: %+v", ended[2])
		}
		region.fail(nil)
		time.Sleep(100 * time.Millisecond) // until it is tried again
		synctest.Wait()
		if len(ended) != 3 || ended[2].Outcome != sharding.Executed {
			t.Fatalf("%+v", ended)
		}
		held := -1
		if err := d.Inside(t.Context(), func() error { held = d.Core().Stats().Replies; return nil }); err != nil || held != 0 {
			t.Errorf("%d bytes of replies are held: %v", held, err)
		}
	})
}

// TestEnd: what is outstanding at the end is answered: as unknown if it was sent, else as not
// applied.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, region := newDriver(t)
		region.silent = true
		over := make(chan struct{})
		go func() { d.Run(); close(over) }()
		var ended []sharding.Reply
		if err := d.Submit(call(d, "Do", &ended), call(d, "Get", &ended)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		idle := d.Idle()
		synctest.Wait()
		select {
		case <-idle:
			t.Error("idle, with two calls")
		default:
		}
		d.Do(func() { region.fail(link.ErrBackpressure) })
		if err := d.Submit(call(d, "Do", &ended)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d.End()
		<-over
		var got []sharding.Outcome
		for _, r := range ended {
			got = append(got, r.Outcome)
		}
		// A command that changes nothing is not applied, whether it ran or not.
		if want := []sharding.Outcome{sharding.Unknown, sharding.NotApplied, sharding.NotApplied}; !slices.Equal(got, want) {
			t.Errorf("%+v", ended)
		}
		if err := d.Submit(call(d, "Do", &ended)); err == nil {
			t.Error("takes commands after the end")
		}
	})
}

// TestAbandon: an abandoned call is forgotten, or was over already.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, region := newDriver(t)
		go d.Run()
		defer d.End()
		var ended []sharding.Reply
		over := call(d, "Do", &ended)
		if err := d.Submit(over); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		region.silent = true
		under := call(d, "Do", &ended)
		if err := d.Submit(under); err != nil {
			t.Fatal(err)
		}
		late := 0
		d.Abandon(over, func() { late++ })
		d.Abandon(under, func() { late++ })
		<-d.Idle()
		if late != 1 || len(ended) != 1 {
			t.Errorf("%d were over, %d ended", late, len(ended))
		}
	})
}

// TestFailedSends: once a command of a shard could not be sent, later ones fail too until
// the core knows, or they would overtake it.
func TestFailedSends(t *testing.T) {
	d, region := newDriver(t)
	owner := sharding.NodeID{Addr: "r:1", UID: 1}
	d.sender.Up(router.LinkUp{Region: owner, Link: 7}, &openLink{Outlet: region})
	d.sender.Next()
	send := func(region sharding.NodeID, link uint64, attempt router.Attempt, shard uint32) {
		d.sendCommand(&router.SendCommand{Region: region, Link: link, Attempt: attempt, Shard: sharding.ShardID{Type: "T", Index: shard}})
	}
	send(owner, 8, 1, 1)
	send(owner, 7, 2, 1)
	send(owner, 7, 3, 2)
	send(sharding.NodeID{Addr: "nobody:1", UID: 1}, 7, 4, 3)
	region.fail(link.ErrTooLarge)
	send(owner, 7, 5, 2)
	region.fail(nil)
	var failed []router.Attempt
	for in, ok := d.sender.Next(); ok; in, ok = d.sender.Next() {
		switch in := in.(type) {
		case router.SendFailed:
			failed = append(failed, in.Attempt)
		case router.Answer:
			if in.Attempt != 5 || in.Reply.Outcome != sharding.NotApplied || in.Reply.Code != sharding.InvalidArgument {
				t.Errorf("%+v", in)
			}
		}
	}
	if !slices.Equal(failed, []router.Attempt{1, 2, 4}) {
		t.Errorf("%v failed", failed)
	}
	send(owner, 7, 6, 1)
	region.silent = true
	d.flush()
	if len(region.seen) != 2 || region.seen[0].Number != 3 || region.seen[1].Number != 6 {
		t.Errorf("sent: %+v", region.seen)
	}
}

package e2e_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/config"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/sdk/entity"
	coordinatorserver "github.com/roost-cluster/roost/services/coordinator/server"
	gatewayserver "github.com/roost-cluster/roost/services/gateway/server"
	regionserver "github.com/roost-cluster/roost/services/region/server"
)

// shop is an entity with a reminder that fails, and sends to one that is closed, and to one that
// refuses all.
type shop struct{}

type opened struct{}

// stuck is true if the shop called broken cannot be started.
var stuck atomic.Bool

func (*shop) OnStart(ctx *entity.Ctx) error {
	if ctx.ID() == "broken" && stuck.Load() {
		return errors.New("the door is stuck")
	}
	return nil
}

var (
	shopClean = entity.Command[string, int]("Shop", "Clean", entity.Stored())
	shopTake  = entity.Command[string, int]("Shop", "Take", entity.Stored())
)

func shops() entity.Definition {
	return entity.Define("Shop", func(string) *shop { return &shop{} },
		entity.On(entity.Command[string, int]("Shop", "Open"), func(_ *shop, ctx *entity.Ctx, _ string) (int, error) {
			shopClean.Remind(ctx, ctx.Now(), "clean", "")
			shopTake.Send(ctx, "closed", "a")
			shopTake.Send(ctx, "closed", "b")
			shopTake.Send(ctx, "picky", "c")
			ctx.Persist(opened{})
			return 0, nil
		}),
		entity.On(entity.Command[string, int]("Shop", "Break"), func(_ *shop, ctx *entity.Ctx, _ string) (int, error) {
			ctx.Persist(opened{})
			return 0, nil
		}),
		entity.On(shopClean, func(*shop, *entity.Ctx, string) (int, error) {
			return 0, errors.New("no water")
		}),
		entity.On(shopTake, func(_ *shop, ctx *entity.Ctx, _ string) (int, error) {
			if ctx.ID() == "picky" {
				return 0, entity.Errorf(entity.FailedPrecondition, "not fresh")
			}
			return 0, errors.New("closed")
		}),
		entity.Event("opened", func(*shop, opened) {}),
		entity.With[shop](entity.Shards(4), entity.Remember()),
	)
}

// serve runs a service in this process until stop is called.
func serve(t *testing.T, service string, cfg config.Configured, set func(*node.Node) error) (n *node.Node, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan *node.Node, 1), make(chan error, 1)
	go func() {
		ended <- node.Run(ctx, service, cfg, func(n *node.Node) error {
			err := set(n)
			ready <- n
			return err
		})
	}()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			if err := <-ended; err != nil {
				t.Errorf("the %s has ended with %v", service, err)
			}
		}
	}
	t.Cleanup(stop)
	return <-ready, stop
}

// eventually polls until done says true.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// TestWhatFails: a coordinator lists what fails in a region, as the region knows it.
func TestWhatFails(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close()

	cc := coordinatorserver.DefaultConfig()
	cc.Listen, cc.Management.Listen, cc.Discovery.URL, cc.LogLevel = addr, "127.0.0.1:0", "static://"+addr, slog.LevelError+1
	cc.Bootstrap.StableMargin, cc.Bootstrap.QueryInterval = 100*time.Millisecond, 20*time.Millisecond
	cc.Journal.URL, cc.LeaseURL = "sqlite:"+dir+"/journal.db", "sqlite:"+dir+"/lease.db"
	coordinator, _ := serve(t, "coordinator", &cc, func(n *node.Node) error { _, err := coordinatorserver.New(n, &cc); return err })

	startRegion := func() (stop func()) {
		rc := regionserver.DefaultConfig()
		rc.Listen, rc.Management.Listen, rc.Advertise, rc.LogLevel = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1", slog.LevelError+1
		rc.Journal.URL, rc.Seeds, rc.Name = cc.Journal.URL, []string{addr}, "region-1"
		_, stop = serve(t, "region", &rc, func(n *node.Node) error { _, err := regionserver.New(n, &rc, shops()); return err })
		return stop
	}
	stopRegion := startRegion()

	gc := gatewayserver.DefaultConfig()
	gc.Listen, gc.Management.Listen, gc.Discovery.URL, gc.LogLevel = "127.0.0.1:0", "127.0.0.1:0", "static://"+addr, slog.LevelError+1
	gateway, _ := serve(t, "gateway", &gc, func(n *node.Node) error { _, err := gatewayserver.New(n, &gc); return err })

	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	call := func(id, command string) {
		t.Helper()
		eventually(t, command+" of "+id, func() bool {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+gateway.ServiceAddr()+"/v1/Shop/"+id+"/"+command, strings.NewReader(`""`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", id+command)
			req.Header.Set("Content-Type", "application/json")
			res, err := client.Do(req)
			if err != nil {
				return false
			}
			_, _ = io.Copy(io.Discard, res.Body)
			return res.Body.Close() == nil && res.StatusCode == http.StatusOK
		})
	}
	call("anna", "Open")
	call("broken", "Break")

	admin := adminv1.NewAdminProtobufClient("http://"+coordinator.ManagementAddr(), client)
	failed := func(f *adminv1.Failure, code, message string) bool {
		return f != nil && f.Times >= 2 && f.Code == code && strings.Contains(f.Message, message) && f.Region == "region-1" && f.NextUnixMs > 0
	}
	for _, only := range []bool{true, false} {
		eventually(t, "the reminder fails", func() bool {
			res, err := admin.Reminders(t.Context(), &adminv1.RemindersRequest{Failing: only})
			return err == nil && len(res.Reminders) == 1 && res.Reminders[0].Id == "anna" && res.Reminders[0].Command == "Clean" && failed(res.Reminders[0].Failure, "internal", "Clean failed")
		})
	}
	eventually(t, "the send fails", func() bool {
		res, err := admin.Sends(t.Context(), &adminv1.SendsRequest{Type: "Shop", Failing: true})
		return err == nil && len(res.Sends) == 1 && res.Sends[0].TargetId == "closed" && res.Sends[0].Waiting == 1 && failed(res.Sends[0].Failure, "internal", "Take failed")
	})
	eventually(t, "all sends are listed", func() bool {
		res, err := admin.Sends(t.Context(), &adminv1.SendsRequest{})
		if err != nil || len(res.Sends) != 3 || len(res.Silent) > 0 {
			return false
		}
		dead, first, second := res.Sends[0], res.Sends[1], res.Sends[2]
		return dead.State == "refused" && dead.Failure != nil && dead.Failure.Code == "failed_precondition" && dead.Failure.Message == "not fresh" &&
			!first.Behind && failed(first.Failure, "internal", "Take failed") && second.Behind && failed(second.Failure, "internal", "Take failed")
	})

	stopRegion()
	stuck.Store(true)
	stopRegion = startRegion()
	for _, only := range []bool{true, false} {
		eventually(t, "it cannot be started", func() bool {
			res, err := admin.Remembered(t.Context(), &adminv1.RememberedRequest{Type: "Shop", Failing: only})
			if err != nil || len(res.Silent) > 0 {
				return false
			}
			n := 0
			for _, x := range res.Remembered {
				if x.Id == "broken" && x.Failure != nil && x.Failure.Message != "" && x.Failure.Region == "region-1" {
					n++
				}
			}
			return n == 1 && (only || len(res.Remembered) == 2)
		})
	}
	stopRegion()
}

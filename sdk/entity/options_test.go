package entity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// TestSendOptions: a send has the options of the handle that sends it. Two handles may name one command.
func TestSendOptions(t *testing.T) {
	usual := entity.Command[page, string]("Else", "Take", entity.Stored())
	urgent := entity.Command[page, string]("Else", "Take", entity.Stored(), entity.Timeout(time.Second), entity.Retry(time.Minute, time.Hour), entity.MaxAge(48*time.Hour))
	inst, _ := newNotebook(t, false, func(ctx *entity.Ctx) {
		usual.Send(ctx, "x", page{})
		urgent.Send(ctx, "x", page{})
	})
	done, failed := inst.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Act", Payload: []byte("1")}}, nil)
	want := sharding.SendOptions{Timeout: time.Second, RetryMin: time.Minute, RetryMax: time.Hour, MaxAge: 48 * time.Hour}
	if failed != nil || len(done.Sends) != 2 || done.Sends[0].Options != (sharding.SendOptions{}) || done.Sends[1].Options != want {
		t.Errorf("%+v, %v; want no options, and %+v", done.Sends, failed, want)
	}
}

// TestBadOptions: options without sense are mistakes of the type that has the command, and break the turn that sends it.
func TestBadOptions(t *testing.T) {
	for want, h := range map[string]*entity.Handle[page, string]{
		"Timeout is 2m0s, must be 20ms to 1m0s": entity.Command[page, string]("Notebook", "Take", entity.Stored(), entity.Timeout(2*time.Minute)),
		"Timeout is -1s, must be":               entity.Command[page, string]("Notebook", "Take", entity.Stored(), entity.Timeout(-time.Second)),
		"Retry is 1m0s to 1s, must be":          entity.Command[page, string]("Notebook", "Take", entity.Stored(), entity.Retry(time.Minute, time.Second)),
		"MaxAge is 1ms, must be at least 20ms":  entity.Command[page, string]("Notebook", "Take", entity.Stored(), entity.MaxAge(time.Millisecond)),
	} {
		_, err := entity.New("Notebook", func(string) *notebook { return nil }, entity.On(h, func(*notebook, *entity.Ctx, page) (string, error) { return "", nil }))
		if err == nil || !strings.Contains(err.Error(), "command Take: "+want) {
			t.Errorf("defined: %v, want %s", err, want)
		}
		inst, _ := newNotebook(t, false, func(ctx *entity.Ctx) { h.Send(ctx, "x", page{}) })
		done, failed := inst.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Act", Payload: []byte("1")}}, nil)
		if failed == nil || done.Reply.Code != sharding.FailedPrecondition || !strings.Contains(done.Reply.Message, want) {
			t.Errorf("sent: %+v, want %s", done.Reply, want)
		}
	}
	useless := entity.Command[page, string]("Notebook", "Take", entity.MaxAge(time.Hour))
	_, err := entity.New("Notebook", func(string) *notebook { return nil }, entity.On(useless, func(*notebook, *entity.Ctx, page) (string, error) { return "", nil }))
	if err == nil || !strings.Contains(err.Error(), "command Take has Retry or MaxAge, which are for sends: add Stored()") {
		t.Errorf("a command that cannot be sent: %v", err)
	}
}

// TestTimeouts: the time-out of a command is for all its names.
func TestTimeouts(t *testing.T) {
	h := entity.Command[page, string]("Notebook", "Take", entity.Stored(), entity.Alias("Fetch"), entity.Timeout(time.Second))
	d := instance.Describe(entity.Define("Notebook", func(string) *notebook { return nil }, entity.On(h, func(*notebook, *entity.Ctx, page) (string, error) { return "", nil }),
		entity.On(entity.Command[page, string]("Notebook", "Other"), func(*notebook, *entity.Ctx, page) (string, error) { return "", nil })))
	if len(d.Timeouts) != 2 || d.Timeouts["Take"] != time.Second || d.Timeouts["Fetch"] != time.Second {
		t.Errorf("%v", d.Timeouts)
	}
}

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

func TestForgetMistakes(t *testing.T) {
	forget := func(ctx *entity.Ctx) { ctx.Forget() }
	inst, _ := newNotebook(t, false, forget)
	done, failed := inst.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Act", Payload: []byte("1")}}, nil)
	if failed == nil || !strings.Contains(failed.Error(), "Notebook is not remembered") || done.Forgotten {
		t.Errorf("Forget of a type without Remember: %v", failed)
	}
	def := entity.Define("Notebook", func(string) *notebook { return &notebook{do: forget} },
		entity.On(actNow, (*notebook).act), entity.On(actRead, (*notebook).act),
		entity.With[notebook](entity.Remember()),
	)
	if d := instance.Describe(def); !d.Remember {
		t.Errorf("%+v", d)
	}
	inst, err := instance.New(def, "n")
	if err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		command := map[bool]string{false: "Act", true: "Look"}[readOnly]
		done, failed := inst.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: command, Payload: []byte("1")}, ReadOnly: readOnly}, nil)
		if done.Forgotten == readOnly || (failed != nil) != readOnly {
			t.Errorf("%s: forgotten %t, %v", command, done.Forgotten, failed)
		}
	}
	_, err = entity.New("Notebook", func(string) *notebook { return nil }, entity.On(actNow, (*notebook).act), entity.With[notebook](entity.Volatile(), entity.Remember()))
	if err == nil || !strings.Contains(err.Error(), "cannot have Remember") {
		t.Errorf("a volatile type: %v", err)
	}
}

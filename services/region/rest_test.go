package region_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/services/region"
)

// TestStirs: what a region at rest does does not make ticks come often; anything else does.
func TestStirs(t *testing.T) {
	watch := region.Send{Msg: control.WatchTable{}}
	polled := region.Replied{Asked: control.WatchTable{}, Msg: control.TableChanged{}}
	for _, c := range []struct {
		in   region.ControlInput
		out  []region.ControlOutput
		want bool
	}{
		{region.Tick{}, nil, false},
		{region.Tick{}, []region.ControlOutput{watch, region.TestJournal{}}, false},
		{region.Tick{}, []region.ControlOutput{region.Send{Msg: control.ReportLoad{}}}, true},
		{polled, []region.ControlOutput{watch}, false},
		{polled, []region.ControlOutput{watch, region.Feed{}}, true},
		{region.Replied{Asked: control.Register{}}, nil, true},
		{region.JournalTested{}, nil, false},
		{region.Received{Msg: control.HandOff{}}, nil, true},
	} {
		if got := region.Stirs(c.in, c.out); got != c.want {
			t.Errorf("%+v puts %+v out: something happens: %v", c.in, c.out, got)
		}
	}
}

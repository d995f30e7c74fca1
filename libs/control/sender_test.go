package control_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/control"
)

// senderCase is a message, who sends it by a certificate, in whose name, and whether that is allowed.
type senderCase struct {
	name   string
	by, as control.Identity
	msg    control.Message
	fine   bool
}

var (
	regionA   = control.Identity{Roles: control.Region, Node: "region-a"}
	regionB   = control.Identity{Roles: control.Region, Node: "region-b"}
	anyRegion = control.Identity{Roles: control.Region}
	active    = control.Identity{Roles: control.Coordinator, Node: "coordinator-1"}
	gateway   = control.Identity{Roles: control.Gateway, Node: "gateway-1"}
	anybody   = control.Identity{Roles: control.Anybody}
	nobody    = control.Identity{} // no member
)

var senderCases = []senderCase{
	{"a region in its own name", regionA, regionA, control.ReportLoad{}, true},
	{"a region that is not known yet", regionA, nobody, control.Register{Name: "region-a"}, true},
	{"a region as another one", regionA, regionB, control.ReportLoad{}, false},
	{"a region releases for another one", regionA, regionB, control.ShardStopped{}, false},
	{"a region claims for another one", regionA, regionB, control.ShardStarted{}, false},
	{"a region that registers another one", regionA, nobody, control.Register{Name: "region-b"}, false},
	{"a region with the certificate of all regions", anyRegion, regionB, control.Register{Name: "region-b"}, true},
	{"a certificate without role", anybody, regionB, control.ReportLoad{}, true},
	{"a certificate without role, in the name of another role", anybody, active, control.ReportLoad{}, false},
	{"a gateway as a region", gateway, regionA, control.WatchTable{}, false},
	{"a gateway", gateway, nobody, control.WatchTable{}, true},
	{"a region as a coordinator", regionA, active, control.WatchTable{}, false},
	{"an order of a coordinator", active, active, control.HostShard{Term: 1}, true},
	{"an order of a region", regionA, regionA, control.HostShard{Term: 1}, false},
	{"a shard that a region has released", regionA, regionA, control.HostShard{Term: 1, Released: true}, true},
	{"a shard that another region has released", regionA, regionB, control.HostShard{Term: 1, Released: true}, false},
	{"a released shard of a coordinator", active, active, control.HostShard{Term: 1, Released: true}, false},
}

// wrongSenders returns the names of the cases that are decided wrongly.
func wrongSenders() (wrong []string) {
	for _, c := range senderCases {
		if err := control.CheckSender(c.by, c.as, c.msg); (err == nil) != c.fine {
			wrong = append(wrong, c.name)
		}
	}
	return wrong
}

// TestSenders: a process sends only what its role sends, and only in its own name, as far as its certificate says both.
func TestSenders(t *testing.T) {
	for _, name := range wrongSenders() {
		t.Errorf("%s is decided wrongly", name)
	}
	for _, c := range []struct {
		by, as control.Identity
		fine   bool
	}{
		{regionA, regionA, true}, {regionA, regionB, false}, {regionA, nobody, true}, {anyRegion, regionB, true},
		{regionA, control.Identity{Node: "region-b"}, false}, {regionA, control.Identity{Roles: control.Coordinator | control.Region, Node: "region-a"}, false},
	} {
		if err := c.by.MaySpeakAs(c.as); (err == nil) != c.fine {
			t.Errorf("%v as %v: %v", c.by, c.as, err)
		}
	}
}

// TestReceivers: what asks for the table of a coordinator goes to coordinators only, what asks for a copy to regions.
func TestReceivers(t *testing.T) {
	for _, c := range []struct {
		msgs []control.Message
		want control.Role
	}{
		{[]control.Message{control.WatchTable{}}, control.Coordinator},
		{[]control.Message{control.WatchTable{Copy: true}}, control.Region},
		{[]control.Message{control.Register{}}, control.Coordinator},
		{[]control.Message{control.ShardStarted{}}, control.Coordinator | control.Region},
		{[]control.Message{control.ShardStarted{}, control.JournalReport{}}, control.Coordinator},
		{[]control.Message{control.HandOff{}, control.JournalReport{}}, 0},
	} {
		if got := control.Receivers(c.msgs...); got != c.want {
			t.Errorf("%v is for %v, want %v", c.msgs, got, c.want)
		}
	}
}

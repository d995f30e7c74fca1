package diagnosis

import (
	"slices"
	"strings"
	"testing"

	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

const e1, e2 = 1<<32 | 1, 1<<32 | 2

// scene is a cluster in which Cart/anna is active at region-1, and all is well.
type scene struct {
	gateway     *inspectionv1.GatewayObservation
	coordinator *inspectionv1.CoordinatorObservation
	region      *inspectionv1.RegionObservation
	journal     *inspectionv1.JournalObservation // of the region
	parties     map[Role]*Party
	more        []Party
}

func row(phase string, epoch uint64) *inspectionv1.ObservedRow {
	return &inspectionv1.ObservedRow{Index: 7, Owner: "r:1", Uid: 11, Epoch: epoch, Phase: phase}
}

func newScene() *scene {
	s := &scene{
		gateway: &inspectionv1.GatewayObservation{Table: true, TypeKnown: true, Row: row("serving", e1), HeardMs: 400, Coordinator: "c:1", Room: 100, Link: true},
		coordinator: &inspectionv1.CoordinatorObservation{
			Active: true, Term: 1, TypeKnown: true, Row: row("serving", e1), SinceMs: 60_000, Owner: "region-1", Hosts: 2, Usable: 2,
			Member: &inspectionv1.ObservedMember{Name: "region-1", Status: "up", Reachable: true, Registered: true, Journal: "answers"},
		},
		region: &inspectionv1.RegionObservation{
			TypeHosted: true, Core: true, Shard: "serving", Epoch: e1, MailboxLimit: 10, CommandsLimit: 1000,
			Entity: &inspectionv1.ActiveEntity{Type: "Cart", Id: "anna", Index: 7, Epoch: e1, State: "active", Record: 3, Staged: 3},
		},
		journal: &inspectionv1.JournalObservation{State: "answers", HeardMs: 20, FenceRead: true, FenceEpoch: e1, FenceOwner: 11},
	}
	s.parties = map[Role]*Party{
		Gateway:     {Role: Gateway, Name: "g:1", Addr: "g:1", UID: 31, Result: Answered},
		Coordinator: {Role: Coordinator, Name: "coordinator-1", Addr: "c:1", Asker: true, Result: Answered},
		Region:      {Role: Region, Name: "region-1", Addr: "r:1", UID: 11, Result: Answered},
	}
	return s
}

// fails has a party not answer.
func (s *scene) fails(role Role, with Result) { s.parties[role].Result = with }

// asks makes a party the one that gathers the evidence.
func (s *scene) asks(role Role) {
	for _, p := range s.parties { // order-free: sets flags
		p.Asker = p.Role == role
	}
}

func (s *scene) evidence() *Evidence {
	ev := &Evidence{Type: "Cart", ID: "anna"}
	said := map[Role]*inspectionv1.Observation{
		Gateway: {Gateway: s.gateway}, Coordinator: {Coordinator: s.coordinator}, Region: {Region: s.region, Journal: s.journal},
	}
	for _, role := range []Role{Coordinator, Gateway, Region} {
		if p := s.parties[role]; p != nil {
			if p.Result == Answered {
				p.Said = said[role]
			}
			ev.Parties = append(ev.Parties, *p)
		}
	}
	ev.Parties = append(ev.Parties, s.more...)
	return ev
}

// moves has the row say that the shard moves to region-2, which may claim it or not.
func (s *scene) moves(released bool) {
	s.coordinator.Row = row("handing-off", e1)
	s.coordinator.SinceMs, s.coordinator.Next, s.coordinator.NextAddr, s.coordinator.NextUid, s.coordinator.Released = 1500, "region-2", "r:2", 12, released
	s.coordinator.NextMember = &inspectionv1.ObservedMember{Name: "region-2", Status: "up", Reachable: true}
	s.gateway.Row, s.region.Shard = row("handing-off", e1), "stopping"
}

func (s *scene) runs(ms int64) {
	s.region.Entity.Running, s.region.Entity.RunningMs, s.region.Entity.Mailbox, s.region.Entity.OldestMs = "Checkout", ms, 4, ms
}

var cases = []struct {
	name string
	play func(*scene)
	want []Finding // in their order
	text string    // in the first finding
}{
	{"all is well", func(*scene) {}, []Finding{Active}, "in memory at region-1"},
	{"passivated", func(s *scene) { s.region.Entity, s.region.Stored, s.region.Record = nil, "stored", 3 }, []Finding{Passivated}, "up to record 3"},
	{"it does not exist", func(s *scene) { s.region.Entity, s.region.Stored = nil, "none" }, []Finding{Absent}, "nothing is stored"},
	{"volatile, not in memory", func(s *scene) { s.region.Entity, s.region.Stored, s.region.Volatile = nil, "none", true }, []Finding{Absent}, "volatile"},
	{"the journal did not say in time", func(s *scene) { s.region.Entity, s.region.ReadMs = nil, 44 }, []Finding{Undecided}, "did not say in time"},
	{"never allocated", func(s *scene) {
		s.coordinator.Row, s.gateway.Row = &inspectionv1.ObservedRow{Index: 7, Phase: "unallocated"}, &inspectionv1.ObservedRow{Index: 7, Phase: "unallocated"}
	}, []Finding{Unallocated}, "first command"},
	{"unknown type", func(s *scene) {
		s.coordinator = &inspectionv1.CoordinatorObservation{Active: true, Types: []string{"Order"}}
		s.gateway = &inspectionv1.GatewayObservation{Table: true, HeardMs: 1}
	}, []Finding{UnknownType}, "registered are Order"},
	{"unknown type, as a gateway knows it", func(s *scene) {
		s.asks(Gateway)
		s.fails(Coordinator, Refused)
		s.gateway = &inspectionv1.GatewayObservation{Table: true, HeardMs: 1}
	}, []Finding{UnknownType, NoCoordinator}, "as far as g:1 knows"},
	{"no region for the type", func(s *scene) {
		s.coordinator.Hosts, s.coordinator.Usable = 0, 0
		s.coordinator.Row = &inspectionv1.ObservedRow{Index: 7, Phase: "unallocated"}
	}, []Finding{NoRegion}, "no registered region hosts"},
	{"no region for the type, and its last owner is gone", func(s *scene) {
		s.coordinator.Hosts, s.coordinator.Usable = 0, 0
		s.fails(Region, Refused)
	}, []Finding{NoRegion, OwnerUnreachable}, "no registered region hosts"},
	{"no region can be given shards", func(s *scene) {
		s.coordinator.Usable, s.coordinator.Row = 0, &inspectionv1.ObservedRow{Index: 7, Phase: "unallocated"}
	}, []Finding{NoRegion}, "none of them can be given"},
	{"too few regions", func(s *scene) {
		s.coordinator.MinRegions, s.coordinator.Row = 3, &inspectionv1.ObservedRow{Index: 7, Phase: "unallocated"}
	}, []Finding{Starting}, "before 3 regions are up"},
	{"a new coordinator", func(s *scene) {
		s.coordinator.Recovering, s.coordinator.Row = true, &inspectionv1.ObservedRow{Index: 7, Phase: "unallocated"}
	}, []Finding{Starting}, "owners of earlier terms"},
	{"being allocated", func(s *scene) {
		s.gateway.Waiting, s.coordinator.Row = 2, &inspectionv1.ObservedRow{Index: 7, Phase: "unallocated"}
	}, []Finding{Starting}, "commands wait for it"},
	{"starting", func(s *scene) {
		s.coordinator.Row, s.region.Shard, s.region.Entity = row("starting", e1), "claiming", nil
	}, []Finding{Starting}, "claims it in the journal"},
	{"starting, as another region was lost", func(s *scene) {
		s.coordinator.Row, s.coordinator.Cause, s.region.Shard, s.region.Entity = row("starting", e1), "region-lost", "claiming", nil
	}, []Finding{Starting}, "because its region was lost"},
	{"starting, and the claim fails", func(s *scene) {
		s.coordinator.Row, s.region.Shard, s.region.ClaimRepeated, s.region.Entity = row("starting", e1), "claiming", true, nil
	}, []Finding{Starting}, "failed and is repeated"},
	{"starting, with kept states", func(s *scene) {
		s.coordinator.Row, s.coordinator.KeptBy, s.region.Shard, s.region.Entity = row("starting", e1), "r:9", "fetching", nil
	}, []Finding{Starting}, "that r:9 has kept"},
	{"starting at a region that is paused", func(s *scene) {
		s.coordinator.Row = row("starting", e1)
		s.fails(Region, Silent)
	}, []Finding{OwnerPaused, Starting}, "paused or starved"},
	{"starting, because the journal is slow", func(s *scene) {
		s.coordinator.Row, s.region.Shard, s.region.Entity, s.journal.CommittingMs, s.journal.FenceRead = row("starting", e1), "claiming", nil, 800, false
	}, []Finding{JournalSlow, Starting}, "committing for 800ms"},
	{"handing off", func(s *scene) { s.moves(false) }, []Finding{HandingOff}, "leaves region-1"},
	{"handing off, and a turn holds it up", func(s *scene) { s.moves(false); s.runs(3000) }, []Finding{HandlerStuck, HandingOff, Busy}, "has been running for 3s"},
	{"handing off, to be claimed", func(s *scene) { s.moves(true) }, []Finding{HandingOff}, "which is to claim it"},
	{"handing off, and the next owner is paused", func(s *scene) {
		s.moves(true)
		s.more = []Party{{Role: Region, Name: "region-2", Addr: "r:2", UID: 12, Result: Silent}}
	}, []Finding{OwnerPaused, HandingOff}, "region-2"},
	{"handing off from an owner that is gone", func(s *scene) {
		s.moves(true)
		s.fails(Region, Refused)
		s.more = []Party{{Role: Region, Name: "region-2", Addr: "r:2", UID: 12, Result: Answered}}
	}, []Finding{HandingOff}, "region-2"},
	{"the owner was killed", func(s *scene) { s.fails(Region, Refused) }, []Finding{OwnerUnreachable}, "has not noticed anything yet"},
	{"the owner was killed, and the membership knows", func(s *scene) {
		s.fails(Region, Refused)
		s.coordinator.Member.Reachable, s.coordinator.Member.UnreachableMs = false, 2500
	}, []Finding{OwnerUnreachable}, "unreachable for 2.5s"},
	{"the owner was removed", func(s *scene) { s.fails(Region, Refused); s.coordinator.Member = nil }, []Finding{OwnerUnreachable}, "has removed it"},
	{"the owner is cut off", func(s *scene) { s.fails(Region, Unreached) }, []Finding{OwnerUnreachable}, "its host does not answer"},
	{"the owner is paused", func(s *scene) { s.fails(Region, Silent) }, []Finding{OwnerPaused}, "host takes connections"},
	{"the owner was started again", func(s *scene) { s.fails(Region, Failed); s.parties[Region].Error = "another incarnation" }, []Finding{OwnerFails}, "another incarnation"},
	{"the owner does not hold the shard", func(s *scene) { s.region.Shard, s.region.MinEpoch, s.region.Entity = "", e2, nil }, []Finding{OwnerFails}, "minimum epoch 1.2"},
	{"the shard core does not answer", func(s *scene) { *s.region = inspectionv1.RegionObservation{TypeHosted: true} }, []Finding{RegionBusy}, "has not answered"},
	{"the mailbox is full", func(s *scene) { s.runs(300); s.region.Entity.Mailbox = 10 }, []Finding{MailboxFull}, "is full (10 commands)"},
	{"a handler hangs", func(s *scene) { s.runs(1000) }, []Finding{HandlerStuck, Busy}, "3 more commands wait"},
	{"a handler hangs, and the mailbox is full", func(s *scene) { s.runs(9000); s.region.Entity.Mailbox = 10 }, []Finding{HandlerStuck, MailboxFull}, "Checkout"},
	{"a turn waits for another entity", func(s *scene) {
		s.runs(5000)
		s.region.Entity.WaitsForType, s.region.Entity.WaitsForId = "Stock", "s1"
	}, []Finding{WaitsForEntity, Busy}, "waiting for Stock/s1"},
	{"a turn runs", func(s *scene) { s.runs(999) }, []Finding{Busy}, "3 more commands wait"},
	{"a turn runs, and no caller waits", func(s *scene) { s.runs(999); s.region.Entity.Mailbox = 1 }, []Finding{Active}, ""},
	{"the region is full", func(s *scene) { s.region.Commands = 1000 }, []Finding{RegionFull}, "1000"},
	{"quarantined", func(s *scene) {
		s.region.Entity, s.region.Quarantined = nil, "since 3 o'clock, roost: its command Checkout ended r1, r2"
	}, []Finding{EntityQuarantined}, "it is quarantined since 3 o'clock"},
	{"a damaged record", func(s *scene) { s.region.Entity, s.region.Stored, s.region.Failure = nil, "damaged", "record 2" }, []Finding{EntityDamaged}, "record 2"},
	{"damage that a write met", func(s *scene) { s.region.Entity.State = "damaged" }, []Finding{EntityDamaged}, "takes no commands"},
	{"this version cannot bring it to life", func(s *scene) { s.region.Entity, s.region.Stored, s.region.Failure = nil, "failed", "panic" }, []Finding{EntityFails}, "panic"},
	{"the journal is slow", func(s *scene) { s.journal.CommittingMs, s.journal.Queued = 500, 4 }, []Finding{JournalSlow}, "4 operations wait"},
	{"an operation has waited for long", func(s *scene) { s.journal.OldestMs = 700 }, []Finding{JournalSlow}, "700ms"},
	{"the journal was slow", func(s *scene) { s.journal.SlowestMs = 900 }, []Finding{Active, JournalSlow}, ""},
	{"the entity is loaded slowly", func(s *scene) { s.region.Entity.State, s.region.Entity.OldestMs = "loading", 600 }, []Finding{JournalSlow}, "being loaded"},
	{"it is being settled", func(s *scene) { s.region.Entity.State, s.region.Entity.OldestMs = "settling", 60 }, []Finding{JournalSlow}, "outcome of an earlier write"},
	{"reading it takes long", func(s *scene) { s.region.Entity, s.region.ReadMs = nil, 600 }, []Finding{JournalSlow}, "600ms so far"},
	{"a turn hangs, and the journal is slow", func(s *scene) { s.runs(2000); s.journal.CommittingMs = 2000 }, []Finding{JournalSlow, HandlerStuck, Busy}, ""},
	{"the journal is silent", func(s *scene) { s.journal.State, s.journal.HeardMs = "silent", 9000 }, []Finding{JournalSilent}, "since 9s"},
	{"the journal is silent for a reason", func(s *scene) {
		s.journal.State, s.journal.HeardMs, s.journal.Failure = "silent", 9000, "commits fail since 10:00: SQLSTATE 28P01"
	}, []Finding{JournalSilent}, "since 9s: commits fail since 10:00: SQLSTATE 28P01"},
	{"commits fail", func(s *scene) { s.journal.Failure = "commits fail since 10:00: read-only" }, []Finding{JournalRefuses}, "read-only"},
	{"a volatile entity needs no journal", func(s *scene) { s.region.Volatile, s.journal.State, s.journal.CommittingMs = true, "silent", 9000 }, []Finding{Active}, ""},
	{"fenced", func(s *scene) { s.journal.FenceEpoch = e2 }, []Finding{JournalRefuses}, "at epoch 1.1: the fence is at 1.2"},
	{"a fence of the next owner, before the row", func(s *scene) { s.moves(true); s.journal.FenceEpoch = e2 }, []Finding{HandingOff}, ""},
	{"the fence is damaged", func(s *scene) { s.journal.FenceRead, s.journal.FenceError = false, "page 9" }, []Finding{JournalRefuses}, "page 9"},
	{"the claim met damage", func(s *scene) { s.region.Shard, s.region.Damaged, s.region.Entity = "claiming", true, nil }, []Finding{JournalRefuses}, "damaged"},
	{"the journal is full", func(s *scene) { s.journal.Warning = "no space" }, []Finding{JournalRefuses}, "no space"},
	{"unreadable", func(s *scene) {
		s.coordinator.Row = &inspectionv1.ObservedRow{Index: 7, Epoch: e1, Phase: "starting", Unreadable: true}
		s.coordinator.Forms, s.coordinator.By = []string{"event Packed version 2"}, []string{"v2"}
	}, []Finding{Unreadable}, "event Packed version 2"},
	{"the gateway's row is old", func(s *scene) { s.coordinator.Row, s.region.Epoch, s.journal.FenceEpoch = row("serving", e2), e2, e2 }, []Finding{TableStale}, "a former owner"},
	{"the gateway's row is a moment old", func(s *scene) {
		s.coordinator.Row, s.coordinator.SinceMs, s.region.Epoch, s.journal.FenceEpoch = row("serving", e2), 30, e2, e2
	}, []Finding{Active}, ""},
	{"the gateway hears nothing, and its row is right", func(s *scene) { s.gateway.HeardMs = 8000 }, []Finding{Active, TableStale}, ""},
	{"the gateway has no table", func(s *scene) { s.gateway = &inspectionv1.GatewayObservation{HeardMs: -1, Complaint: "refused"} }, []Finding{TableStale}, "no route table yet (refused)"},
	{"a gateway that is cut off, asked itself", func(s *scene) {
		s.asks(Gateway)
		s.gateway.HeardMs = 8000
		s.fails(Coordinator, Unreached)
		s.fails(Region, Unreached)
	}, []Finding{TableStale, OwnerUnreachable, NoCoordinator}, "reaches no coordinator"},
	{"a gateway that is cut off with a former owner", func(s *scene) {
		s.asks(Gateway)
		s.gateway.HeardMs, s.journal.FenceEpoch = 8000, e2
		s.fails(Coordinator, Unreached)
	}, []Finding{TableStale, NoCoordinator}, "the fence in the journal has 1.2"},
	{"no coordinator and no owner: not the gateway's fault", func(s *scene) {
		s.asks(Gateway)
		s.gateway.HeardMs = 8000
		s.fails(Coordinator, Refused)
		s.fails(Region, Refused)
	}, []Finding{OwnerUnreachable, NoCoordinator}, "no process listens at r:1"},
	{"a gateway that is cut off, as others see it", func(s *scene) {
		s.coordinator.Gateways = []*inspectionv1.ObservedGateway{{Addr: "g:1", Uid: 31, HeardMs: 7000}}
		s.fails(Gateway, Unreached)
	}, []Finding{TableStale}, "last heard 7s ago"},
	{"what holds up all comes before what holds up one gateway", func(s *scene) {
		s.coordinator.Gateways = []*inspectionv1.ObservedGateway{{Addr: "g:1", Uid: 31, HeardMs: 7000}}
		s.fails(Gateway, Unreached)
		s.fails(Region, Silent)
	}, []Finding{OwnerPaused, TableStale}, ""},
	{"a gateway that is paused", func(s *scene) {
		s.coordinator.Gateways = []*inspectionv1.ObservedGateway{{Addr: "g:1", Uid: 31, HeardMs: 7000}}
		s.fails(Gateway, Silent)
	}, []Finding{GatewaySilent}, "paused or starved"},
	{"a gateway that is reached by commands only", func(s *scene) {
		s.coordinator.Gateways = []*inspectionv1.ObservedGateway{{Addr: "g:1", Uid: 31, HeardMs: 900}}
		s.fails(Gateway, Unreached)
	}, []Finding{Active}, ""},
	{"a gateway that has ended", func(s *scene) {
		s.coordinator.Gateways = []*inspectionv1.ObservedGateway{{Addr: "g:1", Uid: 31, HeardMs: 7000}}
		s.fails(Gateway, Refused)
	}, []Finding{Active}, ""},
	{"the gateway is full", func(s *scene) { s.gateway.Room, s.gateway.Waiting = 0, 40 }, []Finding{GatewayFull}, "it has 40"},
	{"no coordinator, and the shard is served", func(s *scene) { s.asks(Gateway); s.fails(Coordinator, Refused) }, []Finding{Active, NoCoordinator}, ""},
	{"no coordinator, and the shard is not served", func(s *scene) {
		s.asks(Gateway)
		s.fails(Coordinator, Refused)
		s.parties[Region], s.gateway.Waiting, s.gateway.Row = nil, 1, &inspectionv1.ObservedRow{Index: 7, Phase: "unallocated"}
	}, []Finding{Starting, NoCoordinator}, ""},
	{"a standby knows no active one", func(s *scene) {
		s.coordinator = &inspectionv1.CoordinatorObservation{}
		s.parties[Region], s.parties[Gateway] = nil, nil
	}, []Finding{NoCoordinator}, "no coordinator is known"},
	{"a standby cannot have the lease", func(s *scene) {
		s.coordinator = &inspectionv1.CoordinatorObservation{Lease: "nothing could be written for 27s: no password"}
		s.parties[Region], s.parties[Gateway] = nil, nil
	}, []Finding{NoCoordinator}, "no coordinator is active, coordinator-1 cannot use the lease: nothing could be written for 27s: no password: shards are neither started nor moved"},
}

func TestOf(t *testing.T) {
	found := map[Finding]bool{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newScene()
			c.play(s)
			list := Of(s.evidence())
			var got []Finding
			for _, f := range list {
				got = append(got, Finding(f.Name))
				found[Finding(f.Name)] = true
				if f.Text == "" || strings.Contains(f.Text+f.Next, "%!") {
					t.Errorf("a text that is none: %q %q", f.Text, f.Next)
				}
				if fine := slices.Index(order, Finding(f.Name)) >= slices.Index(order, Active); fine && f.Blocks {
					t.Errorf("%s blocks", f.Name)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Fatalf("found %q, want %q", got, c.want)
			}
			if !strings.Contains(list[0].Text, c.text) {
				t.Errorf("%q does not say %q", list[0].Text, c.text)
			}
		})
	}
	for _, c := range Findings() {
		if !found[c] && !t.Failed() {
			t.Errorf("no case finds %s", c)
		}
	}
}

// TestEvidenceInAnyOrder: the verdict does not depend on the order in which the parties were asked.
func TestEvidenceInAnyOrder(t *testing.T) {
	for _, c := range cases {
		s := newScene()
		c.play(s)
		ev := s.evidence()
		want := Of(ev)[0].Name
		slices.Reverse(ev.Parties)
		if got := Of(ev)[0].Name; got != want {
			t.Errorf("%s: %s, and %s the other way around", c.name, want, got)
		}
	}
}

// TestNothing: without any evidence there is a finding all the same.
func TestNothing(t *testing.T) {
	if list := Of(&Evidence{Type: "Cart", ID: "anna"}); len(list) == 0 {
		t.Error("nothing is found")
	}
}

// TestFacts: a party's answer is shown, and so is the reason for a missing one.
func TestFacts(t *testing.T) {
	s := newScene()
	s.runs(2000)
	s.coordinator.Handoffs, s.coordinator.HeldBack, s.coordinator.Next, s.coordinator.Released = 2, "nothing moves", "region-2", true
	s.gateway.Waiting, s.gateway.Sent, s.gateway.Refusal, s.gateway.Complaint, s.gateway.Link = 1, 2, "full", "no answer", false
	s.journal.CommittingMs, s.journal.Queued = 30, 4
	var all []string
	for _, p := range s.evidence().Parties {
		all = append(all, Facts(&p)...)
	}
	s.fails(Region, Unreached)
	all = append(all, Facts(&s.evidence().Parties[2])...)
	text := strings.Join(all, "\n")
	for _, want := range []string{
		"shard 7: serving at region-1 (r:1), epoch 1.1, for 1m0s", "goes to region-2, which may claim it", "2 of at most 0 handoffs", "nothing moves",
		"1 wait, 2 are sent", "because: full", "failed: no answer", "not connected to the owner", "confirmed 400ms ago",
		"4 of at most 10 commands in its mailbox", "Checkout has been running for 2s", "4 operations wait, a commit has taken 30ms", "the fence is at epoch 1.1",
		"its host does not answer",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no party reports %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "%!") {
		t.Error(text)
	}
}

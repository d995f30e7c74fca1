package diagnosis

import (
	"slices"
	"strings"
	"testing"
	"time"

	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// sound is a cluster without findings.
func sound() *Cluster {
	e := &Cluster{Active: "coordinator-1"}
	for _, name := range []string{"coordinator-1", "coordinator-2", "region-1", "region-2", "gateway-1", "gateway-2"} {
		role, n, _ := strings.Cut(name, "-")
		e.Processes = append(e.Processes, Setup{Process: &inspectionv1.Process{
			Role: role, Name: name, Version: "v1", Host: "host-" + n, Zone: "zone-" + n, Tls: true, Verifies: true, ManagementLocal: true, ManagementGuarded: true, ManagementTls: true, PublicTls: true,
			Authenticates: true, Policy: true, Certificate: true, CertificateS: 30 * 86400, MemoryUsed: 10, MemoryLimit: 100, Connections: 1, ConnectionsLimit: 100,
			Journal: "postgres", Lease: "postgres", DiskFree: 50, DiskSize: 100, Commands: 1, CommandsLimit: 100,
		}})
	}
	return e
}

// each changes the processes with a role; empty: all.
func each(e *Cluster, role string, change func(*inspectionv1.Process)) {
	for _, p := range e.Processes {
		if role == "" || p.Role == role {
			change(p.Process)
		}
	}
}

func without(e *Cluster, names ...string) {
	e.Processes = slices.DeleteFunc(e.Processes, func(p Setup) bool { return slices.Contains(names, p.Name) })
}

// hot gives a shard a load, and two regions together another one.
func hot(e *Cluster, shard, all float64) {
	e.Regions, e.Load, e.Shards = 2, all, []LoadedShard{{"Cart/7", "region-1", shard}}
}

var advised = []struct {
	name   string
	change func(*Cluster)
	want   string // name and severity of the findings, in this order
	text   string
}{
	{"sound", func(*Cluster) {}, "", ""},
	{"a member is silent", func(e *Cluster) {
		without(e, "region-2")
		e.Silent = []SilentProcess{{"region", "region-2", "no answer"}}
	}, "process-silent danger", "region-2 has not answered: no answer"},
	{"a gateway is not reached", func(e *Cluster) { e.Silent = []SilentProcess{{"gateway", "g:3", "it wants a token"}} }, "process-silent note", "it wants a token"},
	{"no TLS", func(e *Cluster) { each(e, "", func(p *inspectionv1.Process) { p.Tls = false }) }, "tls-off danger", ""},
	{"no TLS on one machine", func(e *Cluster) { each(e, "", func(p *inspectionv1.Process) { p.Tls, p.Local = false, true }) }, "tls-off warning", ""},
	{"peers need no certificate", func(e *Cluster) { each(e, "", func(p *inspectionv1.Process) { p.Verifies = false }) }, "peers-not-verified danger", ""},
	{"anybody sends commands", func(e *Cluster) {
		each(e, "gateway", func(p *inspectionv1.Process) { p.Authenticates, p.Policy = false, false })
	}, "no-authentication danger", ""},
	{"anybody on this machine sends commands", func(e *Cluster) {
		each(e, "gateway", func(p *inspectionv1.Process) { p.Authenticates, p.Local = false, true })
	}, "no-authentication warning", ""},
	{"tokens travel in the open", func(e *Cluster) { each(e, "gateway", func(p *inspectionv1.Process) { p.PublicTls = false }) }, "public-plain warning", ""},
	{"no policy", func(e *Cluster) { each(e, "gateway", func(p *inspectionv1.Process) { p.Policy = false }) }, "no-policy note", ""},
	{"management for all", func(e *Cluster) {
		each(e, "region", func(p *inspectionv1.Process) { p.ManagementLocal, p.ManagementGuarded = false, false })
	}, "management-open warning", ""},
	{"management for all of a machine", func(e *Cluster) { each(e, "region", func(p *inspectionv1.Process) { p.ManagementGuarded = false }) }, "management-unguarded note", ""},
	{"management tokens travel in the open", func(e *Cluster) {
		each(e, "region", func(p *inspectionv1.Process) { p.ManagementLocal, p.ManagementTls = false, false })
	}, "management-plain warning", ""},
	{"roles are not checked", func(e *Cluster) { each(e, "region", func(p *inspectionv1.Process) { p.AnyRole = true }) }, "roles-not-required warning", "tls.ca"},
	{"certificates for a role", func(e *Cluster) { each(e, "", func(p *inspectionv1.Process) { p.Shared = true }) }, "certificates-shared note", "speak for another"},
	{"payloads are shown", func(e *Cluster) { each(e, "region", func(p *inspectionv1.Process) { p.ShowPayloads = true }) }, "payloads-shown note", ""},
	{"payloads are shown to everybody", func(e *Cluster) {
		each(e, "coordinator", func(p *inspectionv1.Process) { p.ShowPayloads, p.ManagementGuarded = true, false })
	}, "payloads-shown warning, management-unguarded note", ""},
	{"commands are tried", func(e *Cluster) { each(e, "coordinator", func(p *inspectionv1.Process) { p.TryCommands = true }) }, "commands-tried note", ""},
	{"everybody tries commands", func(e *Cluster) {
		each(e, "coordinator", func(p *inspectionv1.Process) { p.TryCommands, p.ManagementGuarded = true, false })
	}, "commands-tried warning, management-unguarded note", ""},
	{"a region has gone with its certificate", func(e *Cluster) {
		for _, i := range []int{0, 2} {
			e.Processes[i].Expired = []*inspectionv1.ExpiredPeer{{Name: "spiffe://prod/region/region-3", EndUnixMs: 1764230400000}}
		}
	}, "certificate-refused danger", "spiffe://prod/region/region-3 expired at 2025-11-27T08:00:00Z"},
	{"management for who has a token", func(e *Cluster) {
		each(e, "region", func(p *inspectionv1.Process) { p.ManagementLocal, p.Pprof = false, true })
	}, "", ""},
	{"profiles for all", func(e *Cluster) {
		each(e, "region", func(p *inspectionv1.Process) { p.ManagementLocal, p.ManagementGuarded, p.Pprof = false, false, true })
	}, "management-open warning, pprof-open warning", ""},
	{"a certificate expires", func(e *Cluster) { e.Processes[2].CertificateS = 3 * 86400 }, "certificate-expires warning", "expires in 3 days"},
	{"a certificate expires today", func(e *Cluster) { e.Processes[2].CertificateS = 7200 }, "certificate-expires danger", "in 2 hours"},
	{"a certificate expires now", func(e *Cluster) { e.Processes[2].CertificateS = 1200 }, "certificate-expires danger", "in 20 minutes"},
	{"a certificate has expired", func(e *Cluster) { e.Processes[2].CertificateS = -7200 }, "certificate-expires danger", "2 hours ago"},
	{"one coordinator", func(e *Cluster) { without(e, "coordinator-2") }, "one-coordinator warning", ""},
	{"no standby answers", func(e *Cluster) {
		without(e, "coordinator-2")
		e.Silent = []SilentProcess{{"coordinator", "coordinator-2", "no answer"}}
	}, "process-silent danger, no-standby danger", ""},
	{"one region", func(e *Cluster) { without(e, "region-2") }, "one-region warning", ""},
	{"one gateway", func(e *Cluster) { without(e, "gateway-2") }, "one-gateway note", ""},
	{"one machine", func(e *Cluster) { each(e, "", func(p *inspectionv1.Process) { p.Host = "host-1" }) }, "one-host note", ""},
	{"no zones", func(e *Cluster) { each(e, "", func(p *inspectionv1.Process) { p.Zone = "" }) }, "no-zones note", "no node.zone is set"},
	{"some zones", func(e *Cluster) { e.Processes[2].Zone = "" }, "no-zones warning", "these regions have no node.zone"},
	{"SQLite on several machines", func(e *Cluster) { each(e, "", func(p *inspectionv1.Process) { p.Journal = "sqlite" }) }, "sqlite-several-hosts danger", "on 2 machines"},
	{"SQLite on one machine", func(e *Cluster) {
		each(e, "", func(p *inspectionv1.Process) { p.Journal, p.Host = "sqlite", "host-1" })
	}, "one-host note", ""},
	{"a journal in memory", func(e *Cluster) { each(e, "region", func(p *inspectionv1.Process) { p.Journal = "memory" }) }, "journal-in-memory danger", ""},
	{"the journal warns", func(e *Cluster) { e.Processes[3].JournalWarning = "no room" }, "journal-warning danger", "no room"},
	{"the disk is nearly full", func(e *Cluster) { e.Processes[2].DiskFree = 9 }, "disk-nearly-full warning", ""},
	{"the lease cannot be used", func(e *Cluster) { e.Processes[0].LeaseError = "read-only" }, "lease-unusable danger", "read-only"},
	{"a standby cannot use the lease", func(e *Cluster) { e.Processes[1].LeaseError = "read-only" }, "lease-unusable warning", ""},
	{"clocks", func(e *Cluster) {
		e.Processes[1].Clock, e.Processes[4].Clock = -300*time.Millisecond, 300*time.Millisecond
	}, "clocks-apart warning", "gateway-1 is at least 600ms fast compared with coordinator-2"},
	{"the store's clock", func(e *Cluster) {
		e.Processes[2].NowUnixMs, e.Processes[2].StoreNowUnixMs, e.Processes[2].Clock = 10_000, 310_000, 100*time.Millisecond
	}, "clocks-apart warning", "the clock of the journal's store (as region-1 reads it) is at least 5m0.1s fast compared with coordinator-1"},
	{"clocks are near", func(e *Cluster) {
		e.Processes[1].Clock, e.Processes[4].Clock = -200*time.Millisecond, 300*time.Millisecond
	}, "", ""},
	{"versions", func(e *Cluster) { e.Processes[1].Version = "v2" }, "version-skew note", "v1, v2"},
	{"a version that is not known", func(e *Cluster) { e.Processes[1].Version = "" }, "", ""},
	{"memory", func(e *Cluster) { e.Processes[2].MemoryUsed = 90 }, "memory-nearly-full warning", ""},
	{"no memory limit", func(e *Cluster) { e.Processes[2].MemoryLimit = 0 }, "memory-unlimited note", ""},
	{"a gateway without memory limit", func(e *Cluster) { e.Processes[4].MemoryLimit = 0 }, "", ""},
	{"connections", func(e *Cluster) { e.Processes[4].Connections = 80 }, "connections-nearly-full warning", ""},
	{"commands", func(e *Cluster) { e.Processes[3].Commands = 80 }, "region-nearly-full warning", ""},
	{"an entity is quarantined", func(e *Cluster) { e.Quarantined = []string{"Cart/dora"} }, "entity-quarantined warning", "1 entity is quarantined: Cart/dora. "},
	{"entities are suspected", func(e *Cluster) { e.Suspects = strings.Split("abcdefg", "") }, "entity-suspected note", "7 entities ran when a region ended: a, b, c, d, e, and 2 more. "},
	{"unreadable shards", func(e *Cluster) { e.Unreadable = []UnreadableShards{{"Cart", 3, "no region reads them"}} }, "shard-unreadable danger", "in 3 shards of Cart are refused: no region reads them"},
	{"the facts are gone", func(e *Cluster) { e.FactsMissing = "Cart/anna" }, "facts-missing danger", "entities such as Cart/anna have records"},
	{"rows were deleted", func(e *Cluster) { e.RowsDeleted, e.RowsDeletedAgo = "the journal heartbeat", 2*time.Hour }, "rows-deleted danger", "noticed 2 hours ago that rows were deleted from the journal, or that an older state of it was restored: the journal heartbeat."},
	{"a shard without a region", func(e *Cluster) { e.Homeless, e.HomelessLongest, e.HomelessFor = 1, "Cart/7", time.Minute }, "shard-without-region danger", "1 shard is without a region, Cart/7 for 1 minute"},
	{"shards that move", func(e *Cluster) { e.Homeless, e.HomelessLongest, e.HomelessFor = 5, "Cart/7", 59*time.Second }, "", ""},
	{"damaged entities", func(e *Cluster) { e.Processes[2].Damaged, e.Processes[2].DamagedLast = 2, "Cart/a\n" }, "data-damaged danger", `2 entities or shards damaged in the journal in the last hour, most recently "Cart/a\n"`},
	{"entities that cannot be brought to life", func(e *Cluster) {
		e.Processes[2].NotAlive, e.Processes[2].NotAliveNewest = 2, []string{"Cart/a: record 5, event added of version 1: Apply of type Cart panicked: nil map"}
	}, "entity-not-alive danger", "could not bring 2 entities to life in the last hour. Their commands are refused: Cart/a: record 5, event added of version 1: Apply of type Cart panicked: nil map; and 1 more"},
	{"a rollout that stands still", func(e *Cluster) { e.Rollout, e.RolloutStill = "v2", time.Hour }, "rollout-unfinished warning", `version "v2"`},
	{"a rollout in progress", func(e *Cluster) { e.Rollout, e.RolloutStill = "v2", 59*time.Minute }, "", ""},
	{"a lost region", func(e *Cluster) { e.Lost = []LostRegion{{"region-3", 2 * time.Hour, "cut off"}} }, "region-lost warning", "region-3 was declared down 2 hours ago and has not come back: cut off"},
	{"a lost region, and no reason", func(e *Cluster) { e.Lost = []LostRegion{{"region-3", 2 * time.Hour, ""}} }, "region-lost warning", "end of its log"},
	{"a region lost twice", func(e *Cluster) {
		e.Lost = []LostRegion{{"region-3", 3 * time.Hour, "cut off"}, {"region-3", 2 * time.Hour, "crashed"}}
	}, "region-lost warning", "region-3 was declared down 2 hours ago and has not come back: crashed"},
	{"a region lost long ago", func(e *Cluster) { e.Lost = []LostRegion{{"region-3", 73 * time.Hour, ""}} }, "", ""},
	{"a hot shard", func(e *Cluster) { hot(e, 3, 4) }, "hot-shard warning", "Cart/7 alone takes 3.0 processors, and all shards together 4.0"},
	{"a shard that others can make room for", func(e *Cluster) { hot(e, 1.2, 2) }, "", ""},
	{"the only shard of an idle cluster", func(e *Cluster) { hot(e, 0.4, 0.4) }, "", ""},
	{"all load is at the only region", func(e *Cluster) { hot(e, 3, 3); e.Regions = 1 }, "", ""},
	{"the most severe first", func(e *Cluster) { without(e, "gateway-2", "region-2"); e.Processes[0].LeaseError = "read-only" }, "lease-unusable danger, one-region warning, one-gateway note", ""},
}

func TestExamine(t *testing.T) {
	found := map[string]bool{}
	for _, c := range advised {
		t.Run(c.name, func(t *testing.T) {
			e := sound()
			c.change(e)
			var got []string
			all := ""
			for _, a := range Examine(e) {
				got = append(got, a.Name+" "+a.Severity)
				all += a.Text + "\n"
				if found[a.Name] = true; a.Text == "" || a.Next == "" || strings.Contains(a.Text, "%!") {
					t.Errorf("no advice: %v", a)
				}
			}
			if strings.Join(got, ", ") != c.want || !strings.Contains(all, c.text) {
				t.Errorf("%q, want %q with %q:\n%s", got, c.want, c.text, all)
			}
		})
	}
	for _, name := range AdviceNames() {
		if !found[name] && !t.Failed() {
			t.Errorf("no case finds %s", name)
		}
	}
}

// TestExamineNothing: no process has answered.
func TestExamineNothing(t *testing.T) {
	if list := Examine(&Cluster{}); len(list) == 0 {
		t.Error("a cluster without regions is sound")
	}
}

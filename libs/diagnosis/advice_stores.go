package diagnosis

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// The journal, the lease, and what their use depends on: clocks and releases.

func (x *exam) sqlite() {
	hosts := map[string]bool{}
	users := x.which(func(p *Setup) bool {
		uses := p.Role != "gateway" && p.Journal == "sqlite"
		if uses && p.Host != "" {
			hosts[p.Host] = true
		}
		return uses
	})
	if len(hosts) > 1 {
		x.say(Danger, users, "use postgres:// for journal.url",
			"the journal is in SQLite, and processes on %d machines use it: its locks do not hold between machines, so data may be lost", len(hosts))
	}
}

func (x *exam) memoryJournal() {
	x.sayOf(x.which(func(p *Setup) bool { return p.Journal == "memory" }), Danger,
		"set journal.url to sqlite: or postgres://",
		"the journal is in memory: everything is lost with the process")
}

func (x *exam) journal() {
	for i := range x.Processes {
		if p := &x.Processes[i]; p.JournalWarning != "" {
			x.say(Danger, []string{p.Name}, "do what the text says; then the journal works again without a restart (docs/running/alerts.md, RoostJournalFails)", "the journal of %s: %s", p.Name, p.JournalWarning)
		}
	}
}

func (x *exam) disk() {
	x.sayOf(x.which(func(p *Setup) bool { return p.DiskSize > 0 && float64(p.DiskFree) < (1-nearDisk)*float64(p.DiskSize) }), Warning,
		"free or add space where journal.url is",
		"less than 10 % of the journal's disk is free")
}

func (x *exam) lease() {
	for i := range x.Processes {
		if p := &x.Processes[i]; p.LeaseError != "" {
			severity := Warning // it stands by, and could not take over
			if p.Name == x.Active {
				severity = Danger
			}
			x.say(severity, []string{p.Name}, "check the store of lease.url, and the network to it", "%s cannot use the store of the lease: %s", p.Name, p.LeaseError)
		}
	}
}

// clocks compares the clocks of all processes with each other, and with the clock of the journal's store: reminders are due by
// the latter.
func (x *exam) clocks() {
	type clock struct {
		of        string
		processes []string // the one that it belongs to, or that has read it
		ahead     time.Duration
	}
	var all []clock
	for i := range x.Processes {
		p := &x.Processes[i]
		all = append(all, clock{p.Name, []string{p.Name}, p.Clock})
		if ahead, known := p.storeAhead(); known {
			all = append(all, clock{"the journal's store (as " + p.Name + " reads it)", []string{p.Name}, ahead})
		}
	}
	if len(all) == 0 {
		return
	}
	byTime := func(a, b clock) int { return cmp.Compare(a.ahead, b.ahead) }
	ahead, behind := slices.MaxFunc(all, byTime), slices.MinFunc(all, byTime)
	if apart := ahead.ahead - behind.ahead; apart > clockSkew {
		about := append(slices.Clone(ahead.processes), behind.processes...)
		slices.Sort(about)
		x.say(Warning, slices.Compact(about), "synchronize the clocks of the machines (NTP), including the journal's server", "the clock of %s is at least %s fast compared with %s", ahead.of, apart.Round(time.Millisecond), behind.of)
	}
}

func (x *exam) versions() {
	var versions []string
	for i := range x.Processes {
		if v := x.Processes[i].Version; v != "" && !slices.Contains(versions, v) { // of a build from a checkout, none is known
			versions = append(versions, v)
		}
	}
	if slices.Sort(versions); len(versions) > 1 {
		x.say(Note, nil, "finish the upgrade (docs/running/upgrading.md), or go back", "the processes run %d different releases of Roost: %s", len(versions), strings.Join(versions, ", "))
	}
}

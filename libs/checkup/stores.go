package checkup

import (
	"slices"
	"strings"
	"time"
)

// The journal, the lease, and what their use depends on: clocks and releases.

func (x *exam) sqlite() {
	hosts := map[string]bool{}
	users := x.which(func(p *Process) bool {
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
	x.sayOf(x.which(func(p *Process) bool { return p.Journal == "memory" }), Danger,
		"set journal.url to sqlite: or postgres://",
		"the journal is in memory: everything is lost with the process")
}

func (x *exam) journal() {
	for i := range x.Processes {
		if p := &x.Processes[i]; p.JournalWarning != "" {
			x.say(Danger, []string{p.Name}, "do what the text says; then the journal works again without a restart (docs/alerts.md, RoostJournalFails)", "the journal of %s: %s", p.Name, p.JournalWarning)
		}
	}
}

func (x *exam) disk() {
	x.sayOf(x.which(func(p *Process) bool { return p.DiskSize > 0 && float64(p.DiskFree) < (1-nearDisk)*float64(p.DiskSize) }), Warning,
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

func (x *exam) clocks() {
	var ahead, behind *Process
	for i := range x.Processes {
		p := &x.Processes[i]
		if ahead == nil || p.Clock > ahead.Clock {
			ahead = p
		}
		if behind == nil || p.Clock < behind.Clock {
			behind = p
		}
	}
	if ahead != nil && ahead.Clock-behind.Clock > clockSkew {
		x.say(Warning, []string{ahead.Name, behind.Name}, "synchronize the clocks of the machines (NTP)", "the clock of %s is at least %s ahead of that of %s", ahead.Name, (ahead.Clock - behind.Clock).Round(time.Millisecond), behind.Name)
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
		x.say(Note, nil, "finish the upgrade (docs/upgrading.md), or go back", "the processes run %d different releases of Roost: %s", len(versions), strings.Join(versions, ", "))
	}
}

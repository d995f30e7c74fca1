package checkup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// Process is what a process has told. Clock is how far its clock is ahead of the clock of the process that has
// asked, at least: the answer may have taken some time. Negative: it is behind.
type Process struct {
	*inspectionv1.Process
	Clock time.Duration
}

// Silent is a member that has not told anything.
type Silent struct{ Role, Name, Reason string }

// Unreadable are shards of a type that no region can be given.
type Unreadable struct {
	Type   string
	Shards int
	Reason string
}

// Lost is a region that was declared down and has not come back.
type Lost struct {
	Name   string
	Ago    time.Duration
	Reason string // empty: not known
}

// Evidence is what was found out about a cluster.
type Evidence struct {
	// Quarantined and Suspects are entities that do not run, or do not run beside each other, because regions have
	// ended.
	Quarantined, Suspects []string
	Processes             []Process
	Silent                []Silent
	Active                string // name of the active coordinator
	Unreadable            []Unreadable
	// Homeless is the number of shards that have no region, and HomelessLongest the one that has had none for longest.
	Homeless        int
	HomelessLongest string
	HomelessFor     time.Duration
	// Rollout is the target version while regions of another version are there too; empty: no rollout is on.
	// RolloutStill is for how long no region has come or gone.
	Rollout      string
	RolloutStill time.Duration
	Lost         []Lost
	// Regions is how many regions have reported their load, Load what they have together, in processors, and
	// Shards the shards that have most of it.
	Regions int
	Load    float64
	Shards  []LoadedShard
}

// LoadedShard is a shard, its region, and its load in processors.
type LoadedShard struct {
	Shard, Region string
	Load          float64
}

// The severities.
const (
	Danger  = "danger"  // data or the whole service may be lost, or anybody may do anything
	Warning = "warning" // a single failure, or what comes soon, stops the service
	Note    = "note"    // worth to know
)

// Limits beyond which something is said.
const (
	// clockSkew is how far clocks may be apart. Idempotency keys and tokens are judged by clocks, and
	// processes that are synchronized differ by some milliseconds.
	clockSkew = 500 * time.Millisecond
	// nearMemory, nearConnections and nearDisk are parts of limits. Beyond these, little is left for a peak.
	nearMemory, nearConnections, nearDisk = 0.9, 0.8, 0.9
	// HotShard is the load in processors from which on a shard may be hot, and hotShare how many times the average of
	// the regions it has then: a region that had nothing else would still have too much.
	HotShard, hotShare = 0.5, 1.25
	// certificateSoon is when a certificate that is renewed by itself has been renewed long ago.
	certificateSoon = 14 * 24 * time.Hour
	// certificateLast is when somebody must do something today.
	certificateLast = 24 * time.Hour
	// namedEntities is how many entities a text names at most.
	namedEntities = 5
	// homelessLong is how long shards may have no region. A move or the loss of a region takes some seconds.
	homelessLong = time.Minute
	// rolloutLong is how long a rollout may stand still: longer than most pauses between two regions, or after a canary.
	rolloutLong = time.Hour
	// lostLately is how long a lost region is mentioned: over a weekend.
	lostLately = 72 * time.Hour
)

// rule finds one kind of advice.
type rule struct {
	name string
	find func(*exam)
}

var rules = []rule{
	{"process-silent", (*exam).silent}, {"tls-off", (*exam).tls}, {"peers-not-verified", (*exam).peers}, {"no-authentication", (*exam).authentication},
	{"public-plain", (*exam).public}, {"no-policy", (*exam).policy}, {"management-open", (*exam).management}, {"management-unguarded", (*exam).unguarded}, {"management-plain", (*exam).managementPlain},
	{"pprof-open", (*exam).pprof}, {"roles-not-required", (*exam).anyRole}, {"certificates-shared", (*exam).shared},
	{"payloads-shown", (*exam).payloads}, {"commands-tried", (*exam).commandsTried},
	{"certificate-expires", (*exam).certificates}, {"certificate-refused", (*exam).refused}, {"one-coordinator", (*exam).coordinators}, {"no-standby", (*exam).standby},
	{"one-region", (*exam).regions}, {"one-gateway", (*exam).gateways}, {"one-host", (*exam).oneHost}, {"no-zones", (*exam).zones},
	{"sqlite-several-hosts", (*exam).sqlite}, {"journal-in-memory", (*exam).memoryJournal}, {"journal-warning", (*exam).journal},
	{"disk-nearly-full", (*exam).disk}, {"lease-unusable", (*exam).lease}, {"clocks-apart", (*exam).clocks}, {"version-skew", (*exam).versions},
	{"memory-nearly-full", (*exam).memory}, {"memory-unlimited", (*exam).unlimited}, {"connections-nearly-full", (*exam).connections},
	{"region-nearly-full", (*exam).commands}, {"entity-quarantined", (*exam).quarantined}, {"entity-suspected", (*exam).suspects},
	{"shard-unreadable", (*exam).unreadable}, {"shard-without-region", (*exam).homeless},
	{"data-damaged", (*exam).damaged}, {"rollout-unfinished", (*exam).rollout}, {"region-lost", (*exam).lost},
	{"hot-shard", (*exam).hotShards},
}

// Names lists the names of all advice.
func Names() (names []string) {
	for _, r := range rules {
		names = append(names, r.name)
	}
	return names
}

// exam goes through the evidence.
type exam struct {
	*Evidence
	name string // of the rule
	list []*adminv1.Advice
}

// Examine returns what is unsafe or unwise, the most severe first.
func Examine(e *Evidence) []*adminv1.Advice {
	x := &exam{Evidence: e}
	for _, r := range rules {
		x.name = r.name
		r.find(x)
	}
	order := []string{Danger, Warning, Note}
	slices.SortStableFunc(x.list, func(a, b *adminv1.Advice) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
	return x.list
}

// say adds advice about some processes, or about the cluster.
func (x *exam) say(severity string, about []string, next, format string, args ...any) {
	slices.Sort(about)
	x.list = append(x.list, &adminv1.Advice{Name: x.name, Severity: severity, Processes: about, Next: next, Text: fmt.Sprintf(format, args...)})
}

// which lists the processes of which something is so.
func (x *exam) which(so func(p *Process) bool) (names []string) {
	for i := range x.Processes {
		if p := &x.Processes[i]; so(p) {
			names = append(names, p.Name)
		}
	}
	return names
}

func (x *exam) all(role string) []string {
	return x.which(func(p *Process) bool { return p.Role == role })
}

// exposed is danger if one of the processes can be reached from other machines, otherwise less.
func (x *exam) exposed(names []string, local func(*Process) bool, otherwise string) string {
	if len(x.which(func(p *Process) bool { return slices.Contains(names, p.Name) && !local(p) })) > 0 {
		return Danger
	}
	return otherwise
}

func listens(p *Process) bool { return p.Local }

func (x *exam) silent() {
	for _, s := range x.Silent {
		if s.Role == "gateway" { // it has ended, or without TLS its management listener is not reached, or wants a token
			x.say(Note, []string{s.Name}, "if it runs, look at its gateway.peer_listen, which needs tls.ca; without TLS at its management.listen and management.token_for", "gateway %s has not answered: %s", s.Name, s.Reason)
			continue
		}
		x.say(Danger, []string{s.Name}, "look at roost members, and at the log of the process", "%s %s has not answered: %s", s.Role, s.Name, s.Reason)
	}
}

func (x *exam) tls() {
	if names := x.which(func(p *Process) bool { return !p.Tls }); len(names) > 0 {
		x.say(x.exposed(names, listens, Warning), names, "set tls.cert, tls.key and tls.ca (docs/security.md)", "processes talk to each other without TLS: anyone on their network can read their messages and send any")
	}
}

func (x *exam) peers() {
	if names := x.which(func(p *Process) bool { return p.Tls && !p.Verifies && p.Role != "gateway" }); len(names) > 0 {
		x.say(x.exposed(names, listens, Warning), names, "set tls.ca, and tls.client_auth to require", "these processes ask peers for no certificate: anyone who reaches them can pose as a peer")
	}
}

func (x *exam) authentication() {
	if names := x.which(func(p *Process) bool { return p.Role == "gateway" && !p.Authenticates }); len(names) > 0 {
		x.say(x.exposed(names, listens, Warning), names, "set auth.jwt_keys, auth.api_keys or auth.client_certificates (docs/security.md)", "these gateways do not authenticate clients: anyone who reaches them may send every command")
	}
}

func (x *exam) public() {
	if names := x.which(func(p *Process) bool { return p.Role == "gateway" && p.Authenticates && !p.PublicTls && !p.Local }); len(names) > 0 {
		x.say(Warning, names, "set public.cert and public.key. If a proxy in front of the gateways has TLS, and the network behind it is private, nothing needs to be done", "clients send their tokens and keys to these gateways without TLS")
	}
}

func (x *exam) policy() {
	if names := x.which(func(p *Process) bool { return p.Role == "gateway" && p.Authenticates && !p.Policy }); len(names) > 0 {
		x.say(Note, names, "write a policy and set auth.policy to its file", "there is no policy: every authenticated client may send every command")
	}
}

func (x *exam) management() {
	if names := x.which(func(p *Process) bool { return !p.ManagementLocal && !p.ManagementGuarded }); len(names) > 0 {
		x.say(Warning, names, "set management.tokens, or keep management.listen on loopback (docs/security.md)", "the management listener can be reached from other machines, and asks for no token")
	}
}

func (x *exam) unguarded() {
	if names := x.which(func(p *Process) bool { return p.Tls && p.ManagementLocal && !p.ManagementGuarded }); len(names) > 0 {
		x.say(Note, names, "set management.tokens (docs/security.md)", "whoever has an account on the machine may change the cluster: the management listener asks nobody for a token")
	}
}

func (x *exam) managementPlain() {
	if names := x.which(func(p *Process) bool { return !p.ManagementLocal && p.ManagementGuarded && !p.ManagementTls }); len(names) > 0 {
		x.say(Warning, names, "set management.cert and management.key, unless only a proxy on the same machine or pod reaches it", "operators send their tokens to the management listener without TLS")
	}
}

func (x *exam) anyRole() {
	if names := x.which(func(p *Process) bool { return p.Tls && p.Verifies && p.AnyRole }); len(names) > 0 {
		x.say(Warning, names, "issue certificates that name roles, and set tls.roles to require (docs/security.md)", "whoever has any certificate of tls.ca that names no role can be a coordinator")
	}
}

func (x *exam) shared() {
	if names := x.which(func(p *Process) bool { return p.Shared && p.Role != "gateway" }); len(names) > 0 {
		x.say(Note, names, "issue a certificate for each process, if one of them might be taken over (docs/security.md)", "the certificates of these processes name their role only: one of them can speak for another one")
	}
}

// open is a warning if who asks the management listener of one of the processes need not show who they are, otherwise a note.
func (x *exam) open(names []string) string {
	if len(x.which(func(p *Process) bool { return slices.Contains(names, p.Name) && !p.ManagementGuarded })) > 0 {
		return Warning
	}
	return Note
}

func (x *exam) payloads() {
	if names := x.which(func(p *Process) bool { return p.ShowPayloads }); len(names) > 0 {
		x.say(x.open(x.all("coordinator")), names, "switch coordinator.show_payloads and region.show_payloads off when they are not needed", "operators may see what entities store")
	}
}

func (x *exam) commandsTried() {
	if names := x.which(func(p *Process) bool { return p.TryCommands }); len(names) > 0 {
		x.say(x.open(names), names, "switch coordinator.try_commands off when it is not needed", "operators may send any command to any entity, without being its client")
	}
}

// refused is about processes that may be in no list of members any more: others have given them up.
func (x *exam) refused() {
	by, ends := map[string][]string{}, map[string]int64{}
	for i := range x.Processes {
		for _, e := range x.Processes[i].Expired {
			by[e.Name], ends[e.Name] = append(by[e.Name], x.Processes[i].Name), e.EndUnixMs
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		x.say(Danger, by[name], "renew its files of tls.cert and tls.key, which it reads again by itself; start it again if it has ended (docs/walk.md)",
			"the certificate of %s has expired at %s: these processes refuse its connections, so it is unreachable for them, and may be removed from the cluster", name, time.UnixMilli(ends[name]).UTC().Format(time.RFC3339))
	}
}

func (x *exam) pprof() {
	if names := x.which(func(p *Process) bool { return p.Pprof && !p.ManagementLocal && !p.ManagementGuarded }); len(names) > 0 {
		x.say(Warning, names, "set management.pprof to false when you do not need it", "profiles and stacks can be read from other machines")
	}
}

func (x *exam) certificates() {
	for i := range x.Processes {
		p := &x.Processes[i]
		left := time.Duration(p.CertificateS) * time.Second
		if !p.Certificate || left >= certificateSoon {
			continue
		}
		severity, text := Warning, "expires in "+days(left)
		if left < certificateLast {
			severity = Danger
		}
		if left < 0 {
			text = "expired " + days(-left) + " ago"
		}
		x.say(severity, []string{p.Name}, "replace the file of tls.cert; the process reads it again without a restart", "the certificate of %s %s", p.Name, text)
	}
}

func days(d time.Duration) string {
	if d < 2*time.Hour {
		if d.Round(time.Minute) == time.Minute {
			return "1 minute"
		}
		return fmt.Sprintf("%.0f minutes", d.Minutes())
	}
	if d < 48*time.Hour {
		return fmt.Sprintf("%.0f hours", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// silentOf counts the silent members of a role.
func (x *exam) silentOf(role string) (n int) {
	for _, s := range x.Silent {
		if s.Role == role {
			n++
		}
	}
	return n
}

func (x *exam) coordinators() {
	if c := x.all("coordinator"); len(c)+x.silentOf("coordinator") == 1 {
		x.say(Warning, c, "start a second coordinator; it stands by", "there is only one coordinator: while it is down, no shard is started or moved")
	}
}

func (x *exam) standby() {
	if c := x.all("coordinator"); len(c) == 1 && x.silentOf("coordinator") > 0 {
		x.say(Danger, c, "restart the standby coordinators", "no standby coordinator answers: if %s fails, no other takes over", c[0])
	}
}

func (x *exam) regions() {
	if r := x.all("region"); len(r)+x.silentOf("region") < 2 {
		x.say(Warning, r, "start more regions", "there are fewer than two regions: if one fails, no other takes its shards over")
	}
}

func (x *exam) gateways() {
	if g := x.all("gateway"); len(g) == 1 {
		x.say(Note, g, "start a second gateway, and give clients the addresses of both", "there is only one gateway: while it is down, no client is served")
	}
}

// hosts are the machines on which processes with a role run; empty: all.
func (x *exam) hosts(role string) (hosts []string) {
	for i := range x.Processes {
		if p := &x.Processes[i]; p.Host != "" && (role == "" || p.Role == role) && !slices.Contains(hosts, p.Host) {
			hosts = append(hosts, p.Host)
		}
	}
	return hosts
}

func (x *exam) oneHost() {
	if len(x.Processes) > 1 && len(x.hosts("")) == 1 {
		x.say(Note, nil, "run regions and coordinators on several machines, with a journal that all of them can reach", "all processes run on one machine: they fail together")
	}
}

func (x *exam) zones() {
	regions := x.all("region")
	if without := x.which(func(p *Process) bool { return p.Role == "region" && p.Zone == "" }); len(x.hosts("region")) > 1 && len(without) > 0 {
		if len(without) == len(regions) {
			x.say(Note, nil, "set node.zone if some of the machines can fail together", "regions run on several machines, and no node.zone is set: shards are not spread over zones")
			return
		}
		x.say(Warning, without, "set node.zone for all regions, or for none", "these regions have no node.zone, and others have one: those without count as a zone of their own")
	}
}

func (x *exam) sqlite() {
	if r := x.which(func(p *Process) bool { return p.Role != "gateway" && p.Journal == "sqlite" }); len(r) > 0 {
		hosts := map[string]bool{}
		for i := range x.Processes {
			if p := &x.Processes[i]; slices.Contains(r, p.Name) && p.Host != "" {
				hosts[p.Host] = true
			}
		}
		if len(hosts) > 1 {
			x.say(Danger, r, "use postgres:// for journal.url", "the journal is in SQLite, and processes on %d machines use it: its locks do not hold between machines, so data may be lost", len(hosts))
		}
	}
}

func (x *exam) memoryJournal() {
	if names := x.which(func(p *Process) bool { return p.Journal == "memory" }); len(names) > 0 {
		x.say(Danger, names, "set journal.url to sqlite: or postgres://", "the journal is in memory: everything is lost with the process")
	}
}

func (x *exam) journal() {
	for i := range x.Processes {
		if p := &x.Processes[i]; p.JournalWarning != "" {
			x.say(Danger, []string{p.Name}, "do what the text says; then the journal works again without a restart (docs/alerts.md, RoostJournalFails)", "the journal of %s: %s", p.Name, p.JournalWarning)
		}
	}
}

func (x *exam) disk() {
	if names := x.which(func(p *Process) bool { return p.DiskSize > 0 && float64(p.DiskFree) < (1-nearDisk)*float64(p.DiskSize) }); len(names) > 0 {
		x.say(Warning, names, "free or add space where journal.url is", "less than 10 %% of the journal's disk is free")
	}
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
		if v := x.Processes[i].Version; !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	if slices.Sort(versions); len(versions) > 1 {
		x.say(Note, nil, "finish the upgrade (docs/upgrading.md), or go back", "the processes run %d different releases of Roost: %s", len(versions), strings.Join(versions, ", "))
	}
}

func (x *exam) memory() {
	if names := x.which(func(p *Process) bool {
		return p.MemoryLimit > 0 && float64(p.MemoryUsed) >= nearMemory*float64(p.MemoryLimit)
	}); len(names) > 0 {
		x.say(Warning, names, "give them more memory, or passivate earlier (docs/memory.md)", "these processes use more than 90 %% of their memory limit")
	}
}

func (x *exam) unlimited() {
	if names := x.which(func(p *Process) bool { return p.Role == "region" && p.MemoryLimit == 0 }); len(names) > 0 {
		x.say(Note, names, "set GOMEMLIMIT, or a limit of the container (docs/memory.md)", "these regions have no memory limit: they do not passivate entities before the machine runs out of memory")
	}
}

func (x *exam) connections() {
	if names := x.which(func(p *Process) bool {
		return p.ConnectionsLimit > 0 && float64(p.Connections) >= nearConnections*float64(p.ConnectionsLimit)
	}); len(names) > 0 {
		x.say(Warning, names, "start more gateways, or raise service.connections", "these processes have more than 80 %% of the connections that service.connections allows")
	}
}

func (x *exam) commands() {
	if names := x.which(func(p *Process) bool {
		return p.CommandsLimit > 0 && float64(p.Commands) >= nearConnections*float64(p.CommandsLimit)
	}); len(names) > 0 {
		x.say(Warning, names, "start more regions, or find what makes commands wait (roost top, roost explain)", "these regions hold more than 80 %% of the commands that region.commands allows")
	}
}

func (x *exam) quarantined() {
	if n := len(x.Quarantined); n > 0 {
		x.say(Warning, nil, "roost quarantine list says why; when the cause is repaired, roost quarantine release (docs/repair.md)", "%s: %s. Their commands are refused", count(n, "entity is quarantined", "entities are quarantined"), someOf(x.Quarantined))
	}
}

func (x *exam) suspects() {
	if n := len(x.Suspects); n > 0 {
		x.say(Note, nil, "roost quarantine list says which regions ended; their logs say why (docs/repair.md)", "%s: %s. They run one at a time", count(n, "entity ran when a region ended", "entities ran when a region ended"), someOf(x.Suspects))
	}
}

// count is a number of things, for people.
func count(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", several)
}

// someOf names entities, but not too many.
func someOf(list []string) string {
	names := slices.Clone(list[:min(len(list), namedEntities)])
	if more := len(list) - namedEntities; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func (x *exam) unreadable() {
	for _, u := range x.Unreadable {
		x.say(Danger, nil, "start a region of the version that stored the data; roost rollout shows which regions read what (docs/rolling-out.md)", "commands for entities in %s of %s are refused: %s", shards(u.Shards), u.Type, u.Reason)
	}
}

func (x *exam) homeless() {
	if x.Homeless > 0 && x.HomelessFor >= homelessLong {
		x.say(Danger, nil, "look at roost shards and roost members; roost why TYPE/SHARD says why a shard has no region", "%s without a region, %s for %s: commands for their entities wait or fail", shardsAre(x.Homeless), x.HomelessLongest, days(x.HomelessFor))
	}
}

func (x *exam) damaged() {
	for i := range x.Processes {
		if p := &x.Processes[i]; p.Damaged > 0 {
			what := "1 entity or shard"
			if p.Damaged > 1 {
				what = fmt.Sprintf("%d entities or shards", p.Damaged)
			}
			x.say(Danger, []string{p.Name}, "see docs/repair.md; roost explain on the entity names the damaged record", "%s has found %s damaged in the journal in the last hour, most recently %q: its commands are refused", p.Name, what, p.DamagedLast)
		}
	}
}

func (x *exam) rollout() {
	if x.Rollout != "" && x.RolloutStill >= rolloutLong {
		x.say(Warning, nil, "finish the rollout, or go back (docs/rolling-out.md). Canaries that shall stay are no problem", "the rollout of version %q is not finished, and no region has come or gone for %s", x.Rollout, days(x.RolloutStill))
	}
}

func (x *exam) lost() {
	for _, l := range x.Lost {
		if l.Ago <= lostLately {
			reason := "; look at the end of its log, for example for an expired certificate"
			if l.Reason != "" {
				reason = ": " + l.Reason
			}
			x.say(Warning, []string{l.Name}, "restart the region. If it was removed on purpose, nothing needs to be done", "region %s was declared down %s ago and has not come back%s", l.Name, days(l.Ago), reason)
		}
	}
}

// shards counts shards.
func shards(n int) string {
	if n == 1 {
		return "1 shard"
	}
	return fmt.Sprintf("%d shards", n)
}

// shardsAre counts shards, with the verb.
func shardsAre(n int) string {
	if n == 1 {
		return "1 shard is"
	}
	return shards(n) + " are"
}

func (x *exam) hotShards() {
	for _, s := range x.Shards {
		if s.Load >= HotShard && s.Load > hotShare*x.Load/float64(max(1, x.Regions)) {
			x.say(Warning, []string{s.Region}, "roost top says which entities take it: a single one must do less, or become several; many with ids that somebody has chosen may be an attack (gateway.principal_rate)",
				"the shard %s alone takes %.1f processors, and all shards together %.1f: no move relieves the region that has it", s.Shard, s.Load, x.Load)
		}
	}
}

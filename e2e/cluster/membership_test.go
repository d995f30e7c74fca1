package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/netns"
	"github.com/roost-cluster/roost/libs/adminclient"
)

// membership is a scenario of faults in an idle cluster of seven members: three coordinators
// and four regions.
type membership struct {
	name string
	// short is true if it is in the short set.
	short bool
	// network is true if every process has its own network, which can be cut.
	network bool
	faults  func(m *members)
}

// stable is the wait of the split-brain resolver in these clusters, and leaseless the
// additional wait of a side without a coordinator. The defaults are for larger clusters, and
// leave time to restart coordinators.
const stable, leaseless = 4 * time.Second, 5 * time.Second

var memberships = []membership{
	{name: "kill-three", short: true, faults: func(m *members) { m.killed("coordinator-3", "region-1", "region-2") }},
	{name: "kill-five", faults: killFive},
	{name: "restart", faults: restartQuickly},
	{name: "restart-first-seed", faults: restartFirstSeed},
	{name: "leave", faults: leaveInOrder},
	{name: "down-by-hand", faults: downByHand},
	{name: "blink", faults: func(m *members) { m.pauseFor(300*time.Millisecond, "region-2") }},
	{name: "pause", faults: func(m *members) { m.pauseFor(2*time.Second, "region-2") }},
	{name: "pause-long", faults: func(m *members) { m.pauseUntilRemoved("region-2") }},
	{name: "pause-long-active", faults: func(m *members) { name, _ := m.active(); m.pauseUntilRemoved(name) }},
	{name: "cut-shortly", network: true, faults: cutShortly},
	{name: "cut-one", network: true, faults: func(m *members) { m.isolated("region-2") }},
	{name: "mute-one", network: true, faults: func(m *members) { m.oneWay("region-2", m.names("region-2")...) }},
	{name: "deaf-one", network: true, faults: func(m *members) {
		m.partition(func() {
			for _, other := range m.names("region-2") {
				m.cutOneWay(other, "region-2")
			}
		}, 6)
	}},
	{name: "pair", network: true, faults: func(m *members) { m.partition(func() { m.cut("region-1", "region-2") }, 5) }},
	{name: "halves", short: true, network: true, faults: halve},
	{name: "active-in-minority", network: true, faults: activeInMinority},
	{name: "lease-in-minority", network: true, faults: leaseInMinority},
	{name: "three-parts", network: true, faults: threeParts},
	{name: "bridge-of-one", network: true, faults: bridgeOfOne},
}

// TestMembership: under every fault, each member's own view of the membership is correct. A
// removed member never comes back, parts that cannot reach each other do not both continue,
// a member that is declared down logs that and ends, and at the end all are up in one view.
func TestMembership(t *testing.T) {
	if os.Getenv("E2E") == "" {
		t.Skip("takes minutes: make e2e for all of them, make e2e SET=short for the most important ones")
	}
	for _, s := range memberships {
		t.Run(s.name, func(t *testing.T) {
			if !s.short && !fullSet() {
				t.Skip("not in the short set")
			}
			ran.Store(true)
			for n := range attempts {
				m := &members{run: run{allowed: map[string]string{}}}
				if ok := t.Run(fmt.Sprint("attempt-", n+1), func(t *testing.T) { m.play(t, &s) }); !ok || len(m.void) == 0 {
					return
				}
			}
			t.Errorf("void in %d attempts: this machine is too slow or too busy", attempts)
		})
	}
}

// members is one run of a membership, without load.
type members struct {
	run
	views views
	cuts  [][2]string // pairs whose first cannot reach the second
}

func (m *members) play(t *testing.T, s *membership) {
	m.T, m.dir = t, t.TempDir()
	args := []string{"--gossip.stable_after=" + stable.String(), "--gossip.lease_patience=" + leaseless.String()}
	o := launcher.Options{
		Coordinators: 3, Regions: 4, Dir: m.dir, Changed: m.changed, StartTimeout: waitLimit,
		Args: map[string][]string{launcher.Coordinator: args, launcher.Region: args},
	}
	if s.network {
		m.net = netns.New(t)
		o.Address, o.Start = m.net.Address, m.net.Start
	}
	began := time.Now()
	m.cluster = start(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	wait := m.views.follow(ctx, m.cluster.Processes())
	defer wait()
	defer cancel()
	m.oneView(m.names()...)
	m.figure("formed in %.1f s", time.Since(began).Seconds())
	s.faults(m)
	if m.net != nil {
		m.net.Heal()
	}
	healed := time.Now()
	m.up()
	m.oneView(m.names()...)
	m.figure("all seven in one view %.1f s after the end", time.Since(healed).Seconds())
	for _, err := range m.views.check(m.names()) {
		m.Error(err)
	}
	m.judgeDeaths()
	m.Logf("%-20s %s", s.name, strings.Join(m.figures, ", "))
	if len(m.void) > 0 {
		t.Skipf("void: %s", strings.Join(m.void, "; "))
	}
}

// oneView waits until these processes all see exactly themselves as members. It returns how
// long that took.
func (m *members) oneView(names ...string) time.Duration {
	m.Helper()
	began := time.Now()
	eventually(m.T, 2*waitLimit, func() error {
		m.skipStray()
		return m.views.disagreement(began, names)
	})
	return time.Since(began)
}

// skipStray ends the run if a process was declared down without a fault: this machine was
// too busy for its heartbeats.
func (m *members) skipStray() {
	m.Helper()
	for _, p := range m.cluster.Processes() {
		m.mu.Lock()
		_, allowed := m.allowed[p.Name]
		m.mu.Unlock()
		if p.State != launcher.Died || allowed {
			continue
		}
		if log, err := os.ReadFile(p.Log); err == nil && strings.Contains(string(log), declaredDown) {
			m.markVoid("%s was declared down", p.Name)
			m.SkipNow()
		}
	}
}

// living returns the processes that have not ended.
func (m *members) living() (names []string) {
	for _, p := range m.cluster.Processes() {
		if p.PID != 0 {
			names = append(names, p.Name)
		}
	}
	return names
}

// removal waits until the living processes hold one view without those that are gone, and
// reports when these were noticed and removed.
func (m *members) removal(from time.Time, gone []string, living ...string) {
	m.Helper()
	m.oneView(living...)
	view := time.Since(from)
	first, _, err := m.views.took(from, gone, living, "unreachable", "gone", "replaced", "down")
	m.must(err)
	_, last, err := m.views.took(from, gone, living, "removed")
	m.must(err)
	m.figure("noticed within %.1f s, removed everywhere in %.1f s, one view of %d in %.1f s",
		first.Seconds(), last.Seconds(), len(living), view.Seconds())
}

// killed kills processes, and waits for their removal.
func (m *members) killed(names ...string) {
	m.Helper()
	gone := m.views.uids(names...)
	from := time.Now()
	m.kill(names...)
	m.removal(from, gone, m.names(names...)...)
}

// killFive leaves a standby and a region, which become the cluster.
func killFive(m *members) {
	active, _ := m.active()
	standby := "coordinator-1"
	if active == standby {
		standby = "coordinator-2"
	}
	m.killed(m.names(standby, "region-4")...)
}

// restartQuickly kills one member after the other, several times, and starts it again at
// once at the same address. The new incarnation replaces the old one.
func restartQuickly(m *members) {
	from := time.Now()
	var gone []string
	for range 3 {
		for _, name := range []string{"region-1", "coordinator-2", "region-1"} {
			gone = append(gone, m.views.uids(name)...)
			m.kill(name)
			m.up()
			m.oneView(m.names()...)
		}
	}
	m.figure("%d restarts in %.1f s", len(gone), time.Since(from).Seconds())
	_, _, err := m.views.took(from, gone, m.names("region-1", "coordinator-2"), "removed")
	m.must(err)
}

// restartFirstSeed kills the member that would form a cluster if there were none, and starts
// it again after its removal. It must not form a second cluster.
func restartFirstSeed(m *members) {
	m.killed("coordinator-1")
	began := time.Now()
	m.up()
	m.oneView(m.names()...)
	m.figure("it is back in %.1f s", time.Since(began).Seconds())
}

// leaveInOrder stops three members by SIGTERM, the active coordinator among them. They
// leave, so no member is suspected.
func leaveInOrder(m *members) {
	active, _ := m.active()
	for _, name := range []string{"region-1", active, "region-4"} {
		gone := m.views.uids(name)
		from := time.Now()
		ctx, cancel := context.WithTimeout(m.Context(), 2*waitLimit)
		m.must(m.cluster.Stop(ctx, name))
		cancel()
		living := m.living()
		m.oneView(living...)
		if _, _, err := m.views.took(from, gone, living, "exiting"); err != nil {
			m.Error(err)
		}
		_, last, err := m.views.took(from, gone, living, "removed")
		m.must(err)
		m.figure("%s left everywhere in %.1f s", name, last.Seconds())
	}
}

// downByHand declares a healthy member down. It ends and logs why.
func downByHand(m *members) {
	const victim = "region-3"
	gone := m.views.uids(victim)
	m.allowDeath(declaredDown, victim)
	from := time.Now()
	_, err := adminclient.NewMembership("http://"+m.process("region-1").Management).Down(m.Context(), victim)
	m.must(err)
	m.waitEnd(victim)
	m.figure("ended within %.1f s", time.Since(from).Seconds())
	m.removal(from, gone, m.names(victim)...)
}

// pauseFor stops a process for less time than it takes to declare it down. It stays a
// member, but may be suspected meanwhile.
func (m *members) pauseFor(d time.Duration, name string) {
	m.Helper()
	m.allowDeath(declaredDown, name)
	uid := m.views.uids(name)
	from := time.Now()
	m.must(m.cluster.Signal(name, syscall.SIGSTOP))
	m.wait(d)
	m.must(m.cluster.Signal(name, syscall.SIGCONT))
	if paused := time.Since(from); paused >= stable {
		m.markVoid("the pause took %v", paused)
		return
	}
	took := m.oneView(m.names()...)
	if now := m.views.uids(name); !slices.Equal(now, uid) {
		m.Errorf("%s was %v and is %v", name, uid, now)
	}
	suspected := "not suspected"
	if first, _, err := m.views.took(from, uid, []string{"coordinator-1"}, "unreachable"); err == nil {
		suspected = fmt.Sprintf("suspected in %.1f s", first.Seconds())
	}
	m.figure("stopped for %v, %s, one view %.1f s later", d, suspected, took.Seconds())
}

// pauseUntilRemoved stops a process until all others have removed it. When it resumes, it
// learns that, and ends.
func (m *members) pauseUntilRemoved(name string) {
	m.Helper()
	m.allowDeath(declaredDown, name)
	gone := m.views.uids(name)
	from := time.Now()
	m.must(m.cluster.Signal(name, syscall.SIGSTOP))
	m.removal(from, gone, m.names(name)...)
	from = time.Now()
	m.must(m.cluster.Signal(name, syscall.SIGCONT))
	m.waitEnd(name)
	m.figure("ended %.1f s after it resumed", time.Since(from).Seconds())
	m.oneView(m.names(name)...)
}

// cut drops everything between a process and others.
func (m *members) cut(name string, others ...string) {
	m.net.Cut(name, others...)
	for _, other := range others {
		m.cuts = append(m.cuts, [2]string{name, other})
	}
}

// cutOneWay drops what a process sends to others.
func (m *members) cutOneWay(name string, others ...string) {
	m.net.CutOneWay(name, others...)
	for _, other := range others {
		m.cuts = append(m.cuts, [2]string{name, other})
	}
}

// partition cuts the network, and waits until all processes that still run can reach each
// other and hold one view. At least least of them must be left.
func (m *members) partition(cut func(), least int) (living []string) {
	m.Helper()
	m.allowDeath(declaredDown, m.names()...)
	before := m.views.latest(time.Time{})
	from := time.Now()
	cut()
	eventually(m.T, waitLimit, func() error {
		living = m.living()
		for _, c := range m.cuts {
			if slices.Contains(living, c[0]) && slices.Contains(living, c[1]) {
				return fmt.Errorf("%s and %s cannot reach each other, and both run", c[0], c[1])
			}
		}
		return m.views.disagreement(from, living)
	})
	if len(living) < least {
		m.Errorf("of seven only %v are left, at least %d should be", living, least)
	}
	var gone []string
	for _, name := range m.names(living...) {
		gone = append(gone, before[name].self)
	}
	m.figure("%d of seven stay", len(living))
	if len(living) > 0 {
		m.removal(from, gone, living...)
	}
	return living
}

// cutShortly divides the members, and heals the cut before anybody can be declared down. The
// members stay the same.
func cutShortly(m *members) {
	uids := m.views.uids(m.names()...)
	m.allowDeath(declaredDown, m.names()...)
	from := time.Now()
	m.cut("coordinator-1", m.names("coordinator-1", "region-1", "region-2")...)
	m.cut("region-1", m.names("coordinator-1", "region-1", "region-2")...)
	m.cut("region-2", m.names("coordinator-1", "region-1", "region-2")...)
	eventually(m.T, waitLimit, func() error {
		_, _, err := m.views.took(from, m.views.uids("region-1"), []string{"region-3"}, "unreachable")
		return err
	})
	m.net.Heal()
	cut := time.Since(from)
	if cut >= stable {
		m.markVoid("the cut took %v", cut)
		return
	}
	took := m.oneView(m.names()...)
	if now := m.views.uids(m.names()...); !slices.Equal(now, uids) {
		m.Errorf("members were %v and are %v", uids, now)
	}
	m.figure("cut for %.1f s, one view %.1f s later", cut.Seconds(), took.Seconds())
}

// isolated cuts one member off from all others.
func (m *members) isolated(name string) {
	m.Helper()
	m.partition(func() { m.cut(name, m.names(name)...) }, 6)
	if !m.ended(name) {
		m.Errorf("%s, which is alone, continues", name)
	}
}

// oneWay drops what one member sends to others.
func (m *members) oneWay(name string, others ...string) {
	m.Helper()
	m.partition(func() { m.cutOneWay(name, others...) }, 6)
}

// apart cuts sides off from each other, and checks that exactly one of them stays, complete.
func (m *members) apart(sides ...[]string) (living []string) {
	m.Helper()
	active, _ := m.active()
	living = m.partition(func() {
		for i, side := range sides {
			for _, other := range sides[i+1:] {
				for _, name := range side {
					m.cut(name, other...)
				}
			}
		}
	}, 1)
	i := slices.IndexFunc(sides, func(side []string) bool { return slices.Contains(side, living[0]) })
	if slices.Sort(sides[i]); !slices.Equal(slices.Sorted(slices.Values(living)), sides[i]) {
		m.Errorf("%v are left, which is not all of %v", living, sides[i])
	}
	whose := "another one's"
	if slices.Contains(living, active) {
		whose = "the side of the active coordinator"
	}
	m.figure("the side of %d stayed, %s", len(living), whose)
	return living
}

func halve(m *members) {
	m.apart([]string{"coordinator-1", "region-1", "region-2"}, []string{"coordinator-2", "coordinator-3", "region-3", "region-4"})
}

// activeInMinority cuts the holder of the lease off, with one region. It gives the lease up
// to a coordinator on the other side, and that side stays.
func activeInMinority(m *members) {
	active, _ := m.active()
	if living := m.apart([]string{active, "region-1"}, m.names(active, "region-1")); slices.Contains(living, active) {
		m.Errorf("%s kept the lease in a minority, and %v stayed", active, living)
	}
}

// leaseInMinority cuts all coordinators off, which are fewer than the regions. No coordinator
// on the other side can take the lease, so the coordinators keep it and stay.
func leaseInMinority(m *members) {
	coordinators := []string{"coordinator-1", "coordinator-2", "coordinator-3"}
	if living := m.apart(coordinators, m.names(coordinators...)); !slices.Contains(living, "coordinator-1") {
		m.Errorf("%v stayed, without the lease", living)
	}
}

// threeParts divides the members into three parts with a coordinator each.
func threeParts(m *members) {
	m.apart([]string{"coordinator-1", "region-1"}, []string{"coordinator-2", "region-2", "region-3"}, []string{"coordinator-3", "region-4"})
}

// bridgeOfOne divides the others into two sides; region-4 can reach both.
func bridgeOfOne(m *members) {
	m.partition(func() {
		for _, name := range []string{"coordinator-1", "region-1", "region-2"} {
			m.cut(name, "coordinator-2", "coordinator-3", "region-3")
		}
	}, 0)
}

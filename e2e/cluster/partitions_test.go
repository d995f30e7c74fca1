package cluster

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/adminclient"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// partition cuts the network for a while. Processes that are cut off may be declared down,
// and end when they learn that.
func (r *run) partition(d time.Duration, cut func(), off ...string) {
	r.Helper()
	r.wait(2 * time.Second)
	r.allowDeath(declaredDown, off...)
	cut()
	before := r.load.Acked()
	r.wait(d)
	acked := float64(r.load.Acked() - before)
	r.net.Heal()
	r.figure("%.0f/s meanwhile", acked/d.Seconds())
}

// cutTime is longer than it takes to notice a cut, and shorter than it takes to declare
// anybody down.
const cutTime = 5 * time.Second

// isolateRegion cuts a region off from all others, and from the journal if that is a server.
// Its shards move. Nothing reaches the region meanwhile, so this shows that the others
// continue; island and halves show that a deposed region has no effects.
func isolateRegion(r *run) {
	const victim = "region-2"
	r.partition(cutTime, func() { r.net.Cut(victim, r.machines(victim)...) }, victim)
	r.figure("region-2 was cut off%s", r.fate(victim))
	r.up()
}

// island leaves a region, a gateway and the journal alone with each other. The shards of the
// region move, but neither of the two learns of it. The commands of that gateway still reach
// the deposed region, which must not answer them.
func island(r *run) {
	r.partition(cutTime, func() {
		for _, one := range []string{"region-2", "gateway-1"} {
			r.net.Cut(one, r.names("region-2", "gateway-1")...)
		}
	}, "region-2")
	r.mustFence("region-2")
	r.up()
}

// isolateRegionForLong is like isolateRegion, but lasts until the region is declared down,
// and the journal stays reachable.
func isolateRegionForLong(r *run) {
	const victim = "region-2"
	r.partition(25*time.Second, func() { r.net.Cut(victim, r.names(victim)...) }, victim)
	r.wait(5 * time.Second)
	r.figure("region-2 was cut off for 25 s%s", r.fate(victim))
	r.up()
}

// cutRegionFromCoordinators leaves a region connected to gateways, regions and the journal.
func cutRegionFromCoordinators(r *run) {
	r.partition(cutTime, func() { r.net.Cut("region-2", "coordinator-1", "coordinator-2") }, "region-2")
}

// cutRegionFromJournal cuts a region off from the journal alone. Only the region notices:
// what it hosts stalls, and everything else continues.
func cutRegionFromJournal(r *run) {
	r.allowDeath("", "region-2") // a region without a journal may end
	r.partition(cutTime, func() { r.net.Cut("region-2", journal) })
}

// regionWithoutJournal cuts a region off from the journal alone, for a minute. It reports
// that, its shards move to others, and shards come back after the cut.
func regionWithoutJournal(r *run) {
	const victim = "region-2"
	r.wait(2 * time.Second)
	began := time.Now()
	r.net.Cut(victim, journal)
	eventually(r.T, waitLimit, func() error {
		if n := r.shardsOf(victim); n > 0 {
			return fmt.Errorf("%s has %d shards", victim, n)
		}
		return nil
	})
	r.figure("its shards are with others after %.1f s", time.Since(began).Seconds())
	eventually(r.T, waitLimit, func() error {
		if body := r.readyz(victim); !strings.Contains(body, "[-] journal: the journal has not answered since") {
			return fmt.Errorf("%s says %q", victim, body)
		}
		return nil
	})
	moved, before := time.Now(), r.load.Acked()
	r.wait(time.Minute - time.Since(began))
	r.figure("then %.0f/s", float64(r.load.Acked()-before)/time.Since(moved).Seconds())
	if n := r.shardsOf(victim); n > 0 {
		r.Errorf("%s has no journal and was given %d shards", victim, n)
	}
	r.net.Heal()
	healed := time.Now()
	r.up()
	eventually(r.T, waitLimit, func() error {
		if r.shardsOf(victim) == 0 {
			return fmt.Errorf("%s has no shards", victim)
		}
		return nil
	})
	r.figure("and has shards again %.1f s after the cut", time.Since(healed).Seconds())
}

// shardsOf returns how many shards a region has, by the active coordinator.
func (r *run) shardsOf(region string) int {
	r.Helper()
	var res *adminv1.ShardsResponse
	eventually(r.T, waitLimit, func() (err error) {
		res, err = adminclient.New(r.cluster.Admin()...).Shards(r.Context(), "List", region)
		return err
	})
	return len(res.Shards)
}

// readyz returns the answer of a process to /readyz?verbose.
func (r *run) readyz(name string) string {
	client := http.Client{Timeout: 5 * time.Second}
	res, err := client.Get("http://" + r.process(name).Management + "/readyz?verbose")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// cutCoordinator cuts the active coordinator off from all others. A lease in a file stays
// reachable: no coordinator can take over, and none needs to. A lease on a server does not, and a
// standby takes over.
func cutCoordinator(r *run) {
	old, before := r.active()
	r.partition(cutTime, func() { r.net.Cut(old, r.machines(old)...) }, r.names()...)
	now, term := r.active()
	r.figure("%s of term %d after %s of term %d%s", now, term, old, before, r.fate(old))
}

// cutCoordinatorForLong cuts the active coordinator off until it is declared
// down or gives up, and kills a region meanwhile.
func cutCoordinatorForLong(r *run) {
	old, before := r.active()
	r.partition(25*time.Second, func() {
		r.net.Cut(old, r.machines(old)...)
		r.kill("region-3")
	}, r.names()...)
	r.wait(5 * time.Second)
	r.up()
	now, term := r.active()
	r.figure("%s of term %d after %s of term %d", now, term, old, before)
}

// cutGatewayFromRegion cuts one gateway off from one region, which the other can reach.
func cutGatewayFromRegion(r *run) {
	r.partition(cutTime, func() { r.net.Cut("gateway-1", "region-2") })
}

// muteRegion drops all that a region sends. It still receives.
func muteRegion(r *run) {
	r.partition(cutTime, func() { r.net.CutOneWay("region-2", r.machines("region-2")...) }, "region-2")
	r.figure("region-2 was mute%s", r.fate("region-2"))
	r.up()
}

// deafRegion drops all that is sent to a region. It can still send.
func deafRegion(r *run) {
	r.partition(cutTime, func() {
		for _, other := range r.machines("region-2") {
			r.net.CutOneWay(other, "region-2")
		}
	}, "region-2")
	r.figure("region-2 was deaf%s", r.fate("region-2"))
	r.up()
}

// bridge divides the cluster into two sides. Only region-2 and the journal are reachable from
// both.
func bridge(r *run) {
	r.partition(cutTime, func() { r.divide() }, r.names()...)
	r.up()
}

// halves divides the cluster into two sides; the larger one has region-2. The
// journal is on both.
func halves(r *run) {
	r.partition(cutTime, func() {
		r.divide()
		r.net.Cut("region-2", "coordinator-1", "region-1", "gateway-1")
	}, r.names()...)
	// The side that keeps the lease takes the shards of the other one, whose gateway and
	// regions do not learn of it.
	r.mustFence("region-1", "region-2", "region-3")
	r.up()
}

// divide cuts two sides apart.
func (r *run) divide() {
	for _, one := range []string{"coordinator-1", "region-1", "gateway-1"} {
		r.net.Cut(one, "coordinator-2", "region-3", "gateway-2")
	}
}

// machines returns the machines of all processes but some, and of the journal.
func (r *run) machines(but ...string) []string {
	names := r.names(but...)
	if r.server != nil {
		names = append(names, journal)
	}
	return names
}

// journalDown stops the server of the journal, and starts it again after a while.
func journalDown(r *run, end func(*postgrestest.Server)) {
	r.wait(2 * time.Second)
	end(r.server)
	r.wait(3 * time.Second)
	began := time.Now()
	r.server.Run()
	r.figure("server up again in %.1f s", time.Since(began).Seconds())
}

package cluster

import (
	"context"
	"fmt"
	"os"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
)

const (
	// crowdMemory is the additional memory that the region of a shard with a million reminders
	// may take, and crowdStart the additional processor time that it may use until its first answer after a cold start: the
	// time on the wall depends on what else the machine does.
	crowdMemory = 64 << 20
	crowdStart  = 2 * time.Second
)

// playMillion gives one shard a million reminders. Its region is started without them and with
// them, and must neither take much more memory nor start much later.
func playMillion(l *livingRun) {
	const entities, perCommand, perEntity, dueSoon = 100, 1000, 10_000, 10_000
	// The shard has an owner before: with a shard without an owner, a cluster starts sooner,
	// because the coordinator waits for no owner to come back (coordinator.Config.RecoveryWait).
	if _, err := l.count("/v1/Crowd/c1/Get", "", struct{}{}); err != nil {
		l.Fatal(err)
	}
	firstWithout, usedWithout, memoryWithout := l.coldStart(70 * time.Second)
	far := time.Now().Add(24 * time.Hour).UnixMilli()
	began := time.Now()
	set := func(id string, first int, at, step int64) error {
		_, err := l.count("/v1/Crowd/"+id+"/Set", fmt.Sprint("set-", id, "-", first), map[string]any{
			"first": first, "count": perCommand, "at": at, "step": step,
		})
		return err
	}
	l.each(entities, 4, func(i int) error {
		for first := 0; first < perEntity; first += perCommand {
			if i == 0 {
				continue // its reminders are those that are due soon
			}
			if err := set(fmt.Sprint("c", i), first, far+int64(first), 1); err != nil {
				return err
			}
		}
		return nil
	})
	wrote := time.Since(began)
	soon := time.Now().Add(10 * time.Second).UnixMilli()
	l.each(dueSoon/perCommand, 1, func(i int) error {
		return set("c0", i*perCommand, soon+int64(i)*5000, 5)
	})
	if n := l.number("SELECT count(*) FROM wake WHERE type = 'Crowd' AND kind = 1"); n < entities*perEntity-dueSoon {
		l.Fatalf("%d reminders stand", n)
	}
	first, used, memory := l.coldStart(70 * time.Second)
	eventually(l.T, waitLimit, func() error {
		if n := l.number("SELECT count(*) FROM wake WHERE type = 'Crowd' AND kind = 1"); n != entities*perEntity-dueSoon {
			return fmt.Errorf("%d reminders stand, want %d", n, entities*perEntity-dueSoon)
		}
		return nil
	})
	rang := map[int64]int{}
	l.events("Crowd", func(d done) {
		if d.What == "rang" && d.entity == "c0" {
			rang[d.N]++
		} else if d.What == "rang" {
			l.Errorf("reminder %d of %s has fired a day early", d.N, d.entity)
		}
	})
	for n := range int64(dueSoon) {
		if rang[n] != 1 {
			l.Errorf("reminder %d has fired %d times", n, rang[n])
		}
	}
	l.figure("%d reminders set in %.0f s, %d fired in a minute; resident %d MiB without and %d MiB with them, first answer after a cold start %.2f s and %.2f s, with %.2f s and %.2f s of processor time",
		entities*perEntity, wrote.Seconds(), len(rang), memoryWithout>>20, memory>>20, firstWithout.Seconds(), first.Seconds(), usedWithout.Seconds(), used.Seconds())
	if memory > memoryWithout+crowdMemory {
		l.Errorf("the region takes %d bytes with the reminders, and %d without", memory, memoryWithout)
	}
	if used > usedWithout+crowdStart {
		l.Errorf("the region uses %s of processor time until the first answer with the reminders, and %s without", used, usedWithout)
	}
}

// coldStart kills the cluster and starts it again. It returns the time to the first answer of the shard, the processor
// time of the region until then, and the most memory that the region has had resident in a while after that.
func (l *livingRun) coldStart(while time.Duration) (first, used time.Duration, memory int64) {
	l.Helper()
	l.down()
	began := time.Now()
	l.up()
	for {
		ctx, cancel := context.WithTimeout(l.Context(), 10*time.Second)
		_, refused, err := l.post(ctx, "/v1/Crowd/c1/Get", "", struct{}{}, 10*time.Second)
		cancel()
		if refused == nil && err == nil {
			break
		}
		if time.Since(began) > waitLimit {
			l.Fatalf("no answer after a cold start: %v %v", refused, err)
		}
	}
	first = time.Since(began)
	pid := processOf(l.cluster, launcher.Region).PID
	if _, err := os.Stat("/proc/self/status"); err != nil {
		l.Skipf("needs /proc: %v", err)
	}
	used = processorTime(l.T, pid)
	l.wait(while)
	return first, used, resident(l.T, pid)
}

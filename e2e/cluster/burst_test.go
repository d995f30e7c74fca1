package cluster

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

const (
	// burstReminders is the number of reminders that are due in one second. BURST_REMINDERS sets another one.
	burstReminders = 200_000
	// burstPerEntity is the number of them that an entity has: they fire one after the other.
	burstPerEntity = 10
	// burstRate is the lowest rate per second at which they may fire, kills included.
	burstRate = 400
	// burstNeighbours bounds the 99th percentile of commands to other entities while reminders fire and no region was killed.
	burstNeighbours = time.Second
)

// playBurst sets reminders that are all due in the same second, and kills two of the regions while they fire. Each must
// fire once and not early, all of them within a bound, and commands to other entities must go on meanwhile.
func playBurst(l *livingRun) {
	const perBatch = 100
	reminders := burstReminders
	if n, err := strconv.Atoi(os.Getenv("BURST_REMINDERS")); err == nil {
		reminders = n
	}
	entities := reminders / burstPerEntity
	reminders = entities * burstPerEntity
	began := time.Now()
	// Setting takes as long as the machine needs. So they are set for a time that is far away, and then once more for
	// the time that is due: this takes about as long as the first time.
	set := func(round string, at time.Time) {
		l.each(entities/perBatch, 8, func(i int) error {
			batch := make([]command, perBatch)
			for n := range batch {
				id := i*perBatch + n
				batch[n] = command{"Alarm", fmt.Sprint("b", id), "Set", fmt.Sprint(round, id), map[string]any{
					"first": 0, "count": burstPerEntity, "at": at.UnixMilli() + int64(id%1000), "step": 0,
				}}
			}
			return l.batch(batch)
		})
	}
	set("far-", began.Add(24*time.Hour))
	wrote := time.Since(began)
	quiet, failed := l.trafficFor(15*time.Second, "quiet-")
	due := time.Now().Add(2*wrote + 10*time.Second).Truncate(time.Second)
	set("due-", due)
	if time.Now().After(due) {
		l.markVoid("setting the reminders took longer the second time, so that some were late from the beginning")
	}
	l.wait(time.Until(due))
	calm, failedCalm := l.trafficFor(5*time.Second, "calm-")
	left := func() int64 { return l.number("SELECT count(*) FROM wake WHERE type = 'Alarm' AND kind = 1") }
	before := left()
	if before == 0 {
		l.markVoid("all reminders had fired before the first kill; set BURST_REMINDERS higher")
	}
	stop, measured := make(chan struct{}), make(chan struct{})
	var killed []time.Duration
	var failedKilled int
	go func() {
		defer close(measured)
		killed, failedKilled = l.traffic("killed-", stop)
	}()
	for n := range 2 {
		l.kill(fmt.Sprint("region-", n+1))
		l.wait(3 * time.Second)
		l.up()
	}
	bound := time.Duration(reminders)*time.Second/burstRate + waitLimit
	eventually(l.T, bound, func() error {
		if n := left(); n > 0 {
			return fmt.Errorf("%d of %d reminders have not fired, %s after they were due", n, reminders, time.Since(due).Round(time.Second))
		}
		return nil
	})
	took := time.Since(due)
	close(stop)
	<-measured
	fired := map[string]int{}
	var late []time.Duration
	early := 0
	l.events("Alarm", func(d done) {
		if d.What != "rang" {
			return
		}
		fired[fmt.Sprintf("%s/%d", d.entity, d.N)]++
		at := time.UnixMilli(d.Due)
		if late = append(late, d.stored.Sub(at)); d.stored.Before(at) {
			early++
		}
	})
	if len(fired) != reminders || len(late) != reminders || early > 0 {
		l.Fatalf("%d of %d reminders have fired, %d times, %d of them early", len(fired), reminders, len(late), early)
	}
	p := func(all []time.Duration, share int) time.Duration {
		slices.Sort(all)
		return all[(len(all)-1)*share/100].Round(time.Millisecond)
	}
	l.figure("%d reminders due in one second and 2 kills, set in %.0f s: %d were left 5 s later, all had fired after %.1f s (%.0f/s), lateness p50 %s, p99 %s, at most %s; commands to other entities p50 and p99: quiet %s and %s, while they fire %s and %s, with kills %s and %s; %d of %d commands with kills have failed",
		reminders, wrote.Seconds(), before, took.Seconds(), float64(reminders)/took.Seconds(), p(late, 50), p(late, 99), p(late, 100),
		p(quiet, 50), p(quiet, 99), p(calm, 50), p(calm, 99), p(killed, 50), p(killed, 99), failedKilled, len(killed))
	if failed+failedCalm > 0 {
		l.Errorf("%d commands of other entities have failed while no region was killed", failed+failedCalm)
	}
	if got := p(calm, 99); got > burstNeighbours {
		l.Errorf("while reminders fire, commands to other entities have a 99th percentile of %s, at most %s is allowed", got, burstNeighbours)
	}
}

// trafficFor sends commands at a fixed rate for some time.
func (l *livingRun) trafficFor(d time.Duration, prefix string) (took []time.Duration, failed int) {
	stop := make(chan struct{})
	end := time.AfterFunc(d, func() { close(stop) })
	defer end.Stop()
	return l.traffic(prefix, stop)
}

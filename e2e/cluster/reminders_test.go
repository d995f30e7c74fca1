package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
)

const (
	// alarmShards is the number of shards of the type Alarm.
	alarmShards = 16
	// readingGap is the time without an answered read that counts as an outage of a shard.
	readingGap = 500 * time.Millisecond
	// latenessLimit is the bound of the 99th percentile of how late reminders are.
	latenessLimit = time.Second
)

// readings read an entity of each shard all the time.
type readings struct {
	answered [alarmShards][]time.Time
}

// read starts to read. The answers can be used after end.
func (l *livingRun) read() (p *readings, end func()) {
	p = &readings{}
	ctx, cancel := context.WithCancel(l.Context())
	var group sync.WaitGroup
	for shard := range p.answered {
		id := ""
		for n := 0; id == "" || shardingtest.ShardOf(sharding.EntityID(id), alarmShards) != uint32(shard); n++ {
			id = fmt.Sprint("read-", n)
		}
		group.Go(func() {
			for ctx.Err() == nil {
				attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
				_, refused, err := l.post(attempt, "/v1/Alarm/"+id+"/Get", "", struct{}{}, 2*time.Second)
				cancel()
				if refused == nil && err == nil {
					p.answered[shard] = append(p.answered[shard], time.Now())
				}
				select {
				case <-time.After(50 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	return p, func() { cancel(); group.Wait() }
}

// outages are the times in which a shard did not answer, with the answers around them.
func (p *readings) outages(shard uint32) (all [][2]time.Time) {
	at := p.answered[shard]
	for i := 1; i < len(at); i++ {
		if at[i].Sub(at[i-1]) > readingGap {
			all = append(all, [2]time.Time{at[i-1], at[i]})
		}
	}
	return all
}

// playReminders has reminders fire while regions are killed and the whole cluster stops. Each
// fires once, not early, and soon after its shard answers.
func playReminders(l *livingRun) {
	const perCommand = 100
	reminders, spread := 2000, 30*time.Second
	if fullSet() {
		reminders, spread = 20_000, 120*time.Second
	}
	entities := 200
	perEntity := reminders / entities
	set := time.Now()
	first := set.Add(8 * time.Second)
	step := spread / time.Duration(perEntity)
	due := map[string]int64{}
	for i := range entities {
		for n := range perEntity {
			due[fmt.Sprintf("a%d/%d", i, n)] = first.Add(time.Duration(i)*step/time.Duration(entities)).UnixMilli() + int64(n)*step.Milliseconds()
		}
	}
	l.each(entities, 16, func(i int) error {
		for from := 0; from < perEntity; from += perCommand {
			id := fmt.Sprint("a", i)
			_, err := l.count("/v1/Alarm/"+id+"/Set", fmt.Sprint("set-", i, "-", from), map[string]any{
				"first": from, "count": min(perCommand, perEntity-from), "at": due[fmt.Sprintf("%s/%d", id, from)], "step": step.Milliseconds(),
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if took := time.Since(set); took > 8*time.Second {
		l.markVoid("setting the reminders took %.1f s, so that some were late from the beginning", took.Seconds())
	}
	p, end := l.read()
	kills := 2
	for n := range kills {
		l.wait(time.Until(first) + spread*time.Duration(n+1)/6)
		l.kill(fmt.Sprint("region-", n+1))
		l.wait(3 * time.Second)
		l.up()
	}
	l.wait(time.Until(first.Add(spread / 2)))
	l.stopAll()
	l.wait(5 * time.Second)
	l.up()
	l.wait(time.Until(first.Add(spread)))
	eventually(l.T, 2*waitLimit, func() error {
		if n := l.number("SELECT count(*) FROM wake WHERE type = 'Alarm' AND kind = 1"); n > 0 {
			return fmt.Errorf("%d reminders have not fired", n)
		}
		return nil
	})
	l.wait(time.Second) // so that there is a read after the last firing
	end()
	l.judgeReminders(p, due, kills)
}

// judgeReminders compares the journal with the reminders that were set.
func (l *livingRun) judgeReminders(p *readings, due map[string]int64, kills int) {
	fired := map[string]int{}
	var late, fromDue []time.Duration
	early, total, longest := 0, 0, time.Duration(0)
	outages := [alarmShards][][2]time.Time{}
	for shard := range outages {
		outages[shard] = p.outages(uint32(shard))
		for _, o := range outages[shard] {
			total++
			longest = max(longest, o[1].Sub(o[0]))
		}
	}
	l.events("Alarm", func(d done) {
		if d.What != "rang" {
			return
		}
		name := fmt.Sprintf("%s/%d", d.entity, d.N)
		if fired[name]++; due[name] != d.Due {
			l.Errorf("reminder %s was due at %d, and the entity was told %d", name, due[name], d.Due)
		}
		at := time.UnixMilli(d.Due)
		if d.stored.Before(at) {
			early++
		}
		fromDue = append(fromDue, d.stored.Sub(at))
		from := at
		for _, o := range outages[shardingtest.ShardOf(sharding.EntityID(d.entity), alarmShards)] {
			if o[0].Before(d.stored) && o[1].After(from) {
				from = o[1]
			}
		}
		late = append(late, max(0, d.stored.Sub(from)))
	})
	for name := range due {
		if fired[name] != 1 {
			l.Errorf("reminder %s has fired %d times", name, fired[name])
		}
	}
	if len(fired) != len(due) || early > 0 {
		l.Errorf("%d of %d reminders have fired, %d of them early", len(fired), len(due), early)
	}
	slices.Sort(late)
	slices.Sort(fromDue)
	if len(late) == 0 {
		return
	}
	p99 := late[len(late)*99/100]
	l.figure("%d reminders, %d kills and a full stop, lateness beyond the first answered read p50 %d ms, p99 %d ms, at most %d ms; after the due time at most %.1f s; %d outages of shards, the longest %.1f s",
		len(fired), kills, late[len(late)/2].Milliseconds(), p99.Milliseconds(), late[len(late)-1].Milliseconds(), fromDue[len(fromDue)-1].Seconds(), total, longest.Seconds())
	if p99 > latenessLimit {
		l.Errorf("1 %% of the reminders are later than %s", p99)
	}
}

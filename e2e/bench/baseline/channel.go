package baseline

import (
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/e2e/bench/measure"
)

// channelSize is the size of the buffered channels.
const channelSize = 4096

// Channel sends tells to one goroutine over a buffered channel.
func Channel(length time.Duration) (measure.Sample, error) {
	tells, done := make(chan uint64, channelSize), make(chan int64)
	go func() {
		var n int64
		for range tells {
			n++
		}
		done <- n
	}()
	began := time.Now()
	for n := uint64(0); ; n++ {
		tells <- n
		if n%1024 == 0 && time.Since(began) > length {
			break
		}
	}
	close(tells)
	return measure.Sample{Ops: <-done, Elapsed: time.Since(began)}, nil
}

// ChannelAsk lets callers ask entities that one goroutine keeps in a map. Questions go over
// one buffered channel, answers over a channel per caller.
func ChannelAsk(keys []string, callers int, load func(ask func(caller int) error) (measure.Sample, error)) (measure.Sample, error) {
	type question struct {
		key    string
		answer chan uint64
	}
	questions := make(chan question, channelSize)
	go func() {
		all := map[string]*uint64{}
		for q := range questions {
			n := all[q.key]
			if n == nil {
				n = new(uint64)
				all[q.key] = n
			}
			*n++
			q.answer <- *n
		}
	}()
	defer close(questions)
	answers := make([]chan uint64, callers)
	for i := range answers {
		answers[i] = make(chan uint64, 1)
	}
	var next atomic.Uint64
	return load(func(c int) error {
		questions <- question{keys[next.Add(1)%uint64(len(keys))], answers[c]}
		<-answers[c]
		return nil
	})
}

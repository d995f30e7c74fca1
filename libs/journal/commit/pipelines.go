package commit

import (
	"sync"
	"sync/atomic"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// pipeline holds the operations that wait for one database. Its queue and pace are guarded by
// Journal.mu.
type pipeline struct {
	number int // of the database
	queue  []pending
	bytes  int  // size of the operations in queue
	pace   pace // of commits

	wake       chan struct{} // buffered: an operation was submitted, or the journal closed
	loadTokens chan struct{} // one token per running load
	// backgroundTokens has one token per running load that is a LoadRequest.Background.
	backgroundTokens chan struct{}
	// writeToken holds a token while a commit or, in the first pipeline, a declaration is in progress.
	writeToken chan struct{}
	fullErr    atomic.Pointer[error] // the error of the last write, if the store had no room for it
	downErr    atomic.Pointer[error] // why the database does not answer
	clock      storeClock
	failures   [paths]failure // guarded by Journal.failing
}

func (j *Journal) makePipelines() {
	numbers := []int{1}
	spread, several := j.backend.(journal.Pipelines)
	if several {
		numbers = spread.Pipelines()
	}
	for _, n := range numbers {
		j.pipelines = append(j.pipelines, &pipeline{
			number:     n,
			wake:       make(chan struct{}, 1),
			loadTokens: make(chan struct{}, j.cfg.Loads), backgroundTokens: make(chan struct{}, max(1, j.cfg.Loads/2)),
			writeToken: make(chan struct{}, 1),
		})
	}
	for n := range j.pipelines {
		j.noteDown(n, nil)
	}
	if several {
		spread.NotifyDown(j.noteDown)
	}
}

// pipeline returns the pipeline of a type.
func (j *Journal) pipeline(t sharding.EntityType) *pipeline {
	if len(j.pipelines) == 1 {
		return j.pipelines[0]
	}
	return j.pipelines[j.backend.(journal.Pipelines).Pipeline(t)]
}

// start begins to commit.
func (j *Journal) start() {
	var running sync.WaitGroup
	for _, pl := range j.pipelines {
		running.Go(func() { j.run(pl) })
	}
	go func() {
		running.Wait()
		close(j.stopped)
	}()
}

func (pl *pipeline) signal() {
	select {
	case pl.wake <- struct{}{}:
	default: // a signal is pending already
	}
}

// noteDown notes that the database of a pipeline does not answer or, with nil, that it answers again.
func (j *Journal) noteDown(n int, err error) {
	j.pipelines[n].downErr.Store(&err)
	if j.obs.Down != nil {
		j.obs.Down(j.pipelines[n].number, err)
	}
}

// Package executor runs the work of a region: many short jobs, and a few that block. The
// goroutine that brought a short job usually does it.
//
// A [Worker] holds the state that one goroutine needs to do jobs one after the other. Two
// kinds of goroutines have a worker: goroutines of the [Pool], and inline runners. An
// inline runner is a goroutine that has brought commands, and runs the resulting jobs
// itself.
//
// A watchdog looks every [WatchdogInterval] at the workers that are busy. A worker that
// has been at the same job since the last look is preempted: the jobs behind that job go
// to the pool, and the results of the jobs before it go to the function handIn (see [New]).
// If the worker belongs to an inline runner, its yield function is called, so that another
// goroutine brings commands meanwhile. A job that is about to wait for something calls
// [Pool.Block], so that its worker is preempted at once.
//
// # Life of a worker
//
// The labels of the arrows are methods of the worker. It is preempted by the watchdog, or by
// Block.
//
//	                Take          Next                 Finish
//	Acquire ─▶ idle ─────▶ loaded ─────▶ busy ───────────────────────▶ idle ─▶ Release
//	                                     ▲  │ Next                     ▲
//	                                     └──┘                          │
//	                                      │ watchdog       Finish      │
//	                                      └─────────▶ preempted ───────┘
//
// Next ends the current job and begins the next one. When it returns nil, no job is left, and
// Finish is called. A preempted worker has no job left after its current one, because its other
// jobs went to the pool.
//
// # Number of goroutines
//
// When a goroutine of the pool takes jobs from the queue and other jobs remain in it, it wakes or starts
// another goroutine. So a job that blocks does not delay the jobs after it, and the pool has only a few
// more goroutines than there are jobs that block. When there is nothing to do, up to [MaxIdle] goroutines
// stay.
//
// # Jobs that end their goroutine
//
// A job may call runtime.Goexit. Then its goroutine runs deferred functions and ends, and one of these functions must
// call [Pool.Exit]. A goroutine of the pool is replaced by the next one that is needed.
//
// # What this does not do
//
// It keeps no order: if two jobs must not run at the same time, the caller must add the
// second one only after the first one has ended. It does not interrupt a job.
package executor

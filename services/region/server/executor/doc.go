// Package executor runs the work of a region: many short jobs, most of which are
// done by the goroutine that brought them, and a few that block.
//
// A [Worker] is what one goroutine needs to do jobs one after the other. There are two
// kinds of goroutines that have one: those of the [Pool], and inline runners, which
// brought commands and run the resulting jobs themselves. A watchdog looks every
// [WatchdogInterval] at the workers that are busy. One that has been at the same job
// since the last look is preempted: the jobs behind that job go to the pool, and the
// results of the jobs before it are handed in. If the worker is that of an inline runner,
// its yield function is called, so that another goroutine brings commands meanwhile.
//
// # Life of a worker
//
//	                Take          Next              Next: none left
//	Acquire ─▶ idle ─────▶ loaded ─────▶ busy ─────────────────────▶ idle ─▶ Release
//	                                     ▲  │ Next      Finish       ▲
//	                                     └──┘                        │
//	                                      │ watchdog                 │
//	                                      ▼              Finish      │
//	                                  preempted ─────────────────────┘
//
// A preempted worker finishes its current job, and has no others.
//
// # How many there are
//
// The pool has as many goroutines as jobs that block, and a few more: a goroutine that
// takes jobs while others still wait wakes another one. [MaxIdle] of them stay when there
// is nothing to do.
//
// # What this does not do
//
// It keeps no order: jobs that must not run at the same time must not be added at the
// same time. It does not interrupt a job.
package executor

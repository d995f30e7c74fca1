// Command failing-region is a region for the tests of alerts: the entities' own actions fail on the
// test's request.
//
// # What this does not do
//
// It is not an example: such entities are useless.
package main

import (
	"errors"
	"time"

	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server"
)

// Done is the event of all types.
type Done struct {
	What string `json:"what"`
}

// Worker does the requested work.
type Worker struct{ Count int64 }

// Work stores an event.
func (w *Worker) Work(ctx *entity.Ctx, _ struct{}) (int64, error) {
	ctx.Persist(Done{What: "worked"})
	return w.Count, nil
}

// Target is the input of Post.
type Target struct {
	To     string `json:"to"`
	Refuse bool   `json:"refuse"` // once for all, and not again and again
}

// Post sends a command that its target refuses, or fails to take.
func (w *Worker) Post(ctx *entity.Ctx, in Target) (int64, error) {
	if in.Refuse {
		refuse.Send(ctx, in.To, struct{}{})
	} else {
		fail.Send(ctx, in.To, struct{}{})
	}
	ctx.Persist(Done{What: "posted"})
	return w.Count, nil
}

// Plan sets a reminder that is due at once, and whose command fails.
func (w *Worker) Plan(ctx *entity.Ctx, _ struct{}) (int64, error) {
	fail.Remind(ctx, time.Now(), "fails", struct{}{})
	ctx.Persist(Done{What: "planned"})
	return w.Count, nil
}

// Fail fails. That is not an answer, so the caller repeats it.
func (w *Worker) Fail(*entity.Ctx, struct{}) (int64, error) {
	return 0, errors.New("it fails on every request")
}

// Refuse refuses, which is an answer.
func (w *Worker) Refuse(*entity.Ctx, struct{}) (int64, error) {
	return 0, entity.Errorf(entity.FailedPrecondition, "it refuses")
}

// Hang does not return.
func (w *Worker) Hang(*entity.Ctx, struct{}) (int64, error) { select {} }

// Sentinel is remembered, and cannot be started again once it was broken.
type Sentinel struct{ Broken bool }

// OnStart fails if it is broken.
func (s *Sentinel) OnStart(*entity.Ctx) error {
	if s.Broken {
		return errors.New("it is broken")
	}
	return nil
}

// Break stores that it is broken.
func (s *Sentinel) Break(ctx *entity.Ctx, _ struct{}) (bool, error) {
	ctx.Persist(Done{What: "broken"})
	return true, nil
}

var (
	fail   = entity.Command[struct{}, int64]("Worker", "Fail", entity.Stored())
	refuse = entity.Command[struct{}, int64]("Worker", "Refuse", entity.Stored())
)

func main() {
	server.AppVersion = "1"
	server.Main(
		entity.Define("Worker", func(string) *Worker { return &Worker{} },
			entity.On(entity.Command[struct{}, int64]("Worker", "Work"), (*Worker).Work),
			entity.On(entity.Command[Target, int64]("Worker", "Post"), (*Worker).Post),
			entity.On(entity.Command[struct{}, int64]("Worker", "Plan"), (*Worker).Plan),
			entity.On(entity.Command[struct{}, int64]("Worker", "Hang"), (*Worker).Hang),
			entity.On(fail, (*Worker).Fail),
			entity.On(refuse, (*Worker).Refuse),
			entity.Event("Done", func(w *Worker, _ Done) { w.Count++ }),
			entity.With[Worker](entity.Shards(16)),
		),
		entity.Define("Sentinel", func(string) *Sentinel { return &Sentinel{} },
			entity.On(entity.Command[struct{}, bool]("Sentinel", "Break"), (*Sentinel).Break),
			entity.Event("Done", func(s *Sentinel, _ Done) { s.Broken = true }),
			entity.With[Sentinel](entity.Remember(), entity.Shards(16)),
		),
	)
}

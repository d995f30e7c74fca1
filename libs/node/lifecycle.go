package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Stage is a part of a service that starts and stops. Stages start in the order in which
// they are added and stop in reverse. Every function may be nil. A panic in Start or Stop is a
// failure of the stage. A panic in Run ends the process: most stages run a core, which may be
// half changed then, and others take over sooner from a process that has ended.
type Stage struct {
	Name string

	// Start makes the stage ready for the next one. Its context is done when Start
	// returns, or earlier if the node must stop, so it must not be kept. An error
	// stops the node.
	Start func(ctx context.Context) error

	// Run is called on a goroutine of its own after Start has returned. Its context
	// is done after Stop. If Run returns earlier, with an error or without, the node
	// stops.
	Run func(ctx context.Context) error

	// Stop finishes the stage's work and ends it. It is called if Start has
	// succeeded; for a stage without Start and Run always.
	Stop func(ctx context.Context) error

	// StopTimeout bounds Stop and the end of Run together; 0 means the rest
	// of the node's shutdown.timeout, which bounds all stages together.
	StopTimeout time.Duration
}

// lifecycle runs stages.
type lifecycle struct {
	log     *slog.Logger
	timeout time.Duration
	stages  []*Stage
	running []*running

	mu     sync.Mutex
	cause  error // The first failure.
	cancel context.CancelFunc
}

type running struct {
	*Stage
	cancel context.CancelFunc
	done   chan struct{} // Closed when Run has returned.
}

// fail records the first failure and begins the stop.
func (l *lifecycle) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		l.cause = err
	}
	if l.cancel != nil {
		l.cancel()
	}
}

func (l *lifecycle) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// run starts the stages, waits until ctx is done or a stage fails, and stops those that
// were started. It calls started when all are started, and stopping before the first is
// stopped; the context of stopping bounds the whole stop. It returns the first failure
// and the errors of stopping.
func (l *lifecycle) run(ctx context.Context, started func(), stopping func(context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	l.cancel = cancel
	if l.cause != nil {
		cancel()
	}
	l.mu.Unlock()

	for _, stage := range l.stages {
		if ctx.Err() != nil {
			break
		}
		if err := l.start(ctx, stage); err != nil {
			// If the node must stop, an interrupted start is not a failure.
			if ctx.Err() == nil {
				l.fail(fmt.Errorf("stage %s: %w", stage.Name, err))
			}
			break
		}
	}
	if ctx.Err() == nil {
		started()
	}
	<-ctx.Done()

	stopCtx, cancelStop := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancelStop()
	stopping(stopCtx)
	return errors.Join(l.failure(), l.stop(stopCtx))
}

func (l *lifecycle) start(ctx context.Context, stage *Stage) error {
	begin := time.Now()
	if stage.Start != nil {
		starting, cancel := context.WithCancel(ctx)
		err := safely(func() error { return stage.Start(starting) })
		cancel()
		if err != nil {
			return err
		}
	}
	r := &running{Stage: stage, done: make(chan struct{})}
	l.running = append(l.running, r)
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	if stage.Run == nil {
		close(r.done)
	} else {
		go func() {
			defer close(r.done)
			err := stage.Run(life)
			if life.Err() == nil {
				if err == nil {
					err = errors.New("ended unexpectedly")
				}
				l.fail(fmt.Errorf("stage %s: %w", stage.Name, err))
			}
		}()
	}
	l.log.Debug("stage started", "stage", stage.Name, "took", time.Since(begin))
	return nil
}

// stop stops the started stages in reverse order, and those that have only a Stop.
func (l *lifecycle) stop(ctx context.Context) error {
	byStage := map[*Stage]*running{}
	for _, r := range l.running {
		byStage[r.Stage] = r
	}
	var problems []error
	for i := len(l.stages) - 1; i >= 0; i-- {
		stage := l.stages[i]
		r, isRunning := byStage[stage]
		if !isRunning {
			if stage.Start != nil || stage.Run != nil {
				continue
			}
			r = &running{Stage: stage, cancel: func() {}, done: make(chan struct{})}
			close(r.done)
		}
		begin := time.Now()
		if err := r.stop(ctx); err != nil {
			l.log.Error("stage did not stop well", "stage", stage.Name, "error", err)
			problems = append(problems, fmt.Errorf("stop of stage %s: %w", stage.Name, err))
			continue
		}
		l.log.Debug("stage stopped", "stage", stage.Name, "took", time.Since(begin))
	}
	return errors.Join(problems...)
}

func (r *running) stop(ctx context.Context) error {
	defer r.cancel()
	if r.StopTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.StopTimeout)
		defer cancel()
	}
	stopped := make(chan error, 1)
	go func() {
		var err error
		if r.Stop != nil {
			err = safely(func() error { return r.Stop(ctx) })
		}
		r.cancel()
		<-r.done
		stopped <- err
	}()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		return errors.New("out of time")
	}
}

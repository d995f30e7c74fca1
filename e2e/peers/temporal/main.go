// Command temporal does the work of the benchmarks with Temporal: an entity is a workflow, and a command is an update that the
// caller waits for. The server with all of its services is one process, as Temporal's development server is, on SQLite with
// the settings of the server's own example for a file (WAL, synchronous=FULL). The worker is a second process, and the client
// the third.
//
// # What this does not do
//
// It asks nothing that is not stored: a query of a workflow is not a command.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/roost-cluster/roost/e2e/bench/measure/peer"
)

const (
	namespace = "default"
	queue     = "bench"
	update    = "add"
	// pollers is the number of the worker's requests that wait for tasks. With the default of 2, it is the worker that is waited for.
	pollers = 16
	// What a child serves.
	theServer = "server"
	theWorker = "worker"
	// startedAtOnce is the number of workflows that are started at a time.
	startedAtOnce = 32
)

func main() {
	peer.Main(peer.Program{
		Durable: []peer.Way{{Name: "Temporal, development server", Open: open}},
		Serve: func(_ context.Context, args []string) error {
			switch args[0] {
			case theServer:
				return serveServer(args[1])
			case theWorker:
				return serveWorker(args[1])
			}
			return fmt.Errorf("nothing is called %q", args[0])
		},
	})
}

// account is a workflow that counts the updates of 64 bytes, and answers each with 16.
func account(ctx workflow.Context) error {
	n := 1_000_000_000_000_000
	if err := workflow.SetUpdateHandler(ctx, update, func(_ workflow.Context, _ string) (string, error) {
		n++
		return strconv.Itoa(n), nil
	}); err != nil {
		return err
	}
	workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
	return nil
}

func dial(address string) (client.Client, error) {
	return client.Dial(client.Options{HostPort: address, Namespace: namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))})
}

func serveWorker(address string) error {
	c, err := dial(address)
	if err != nil {
		return err
	}
	w := worker.New(c, queue, worker.Options{MaxConcurrentWorkflowTaskPollers: pollers})
	w.RegisterWorkflowWithOptions(account, workflow.RegisterOptions{Name: "account"})
	if err := w.Start(); err != nil {
		return err
	}
	return peer.Serving(address)
}

// system is a server, a worker and this client.
type system struct {
	client   client.Client
	children []*peer.Child
	question string
}

func open(ctx context.Context, o peer.Options) (_ peer.System, err error) {
	s := &system{question: strings.Repeat("a", 64)} // JSON writes a zero byte as six
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, args := range [][]string{{theServer, o.Dir}, {theWorker}} {
		if len(s.children) > 0 {
			args = append(args, s.children[0].Address)
		}
		child, err := peer.Start(args...)
		if err != nil {
			return nil, err
		}
		s.children = append(s.children, child)
	}
	if s.client, err = dial(s.children[0].Address); err != nil {
		return nil, err
	}
	return s, s.start(ctx, o.Entities)
}

// start starts the workflows.
func (s *system) start(ctx context.Context, count int) error {
	errs := make([]error, startedAtOnce)
	var wg sync.WaitGroup
	for c := range startedAtOnce {
		wg.Go(func() {
			for e := c; e < count && errs[c] == nil; e += startedAtOnce {
				_, errs[c] = s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: workflowID(e), TaskQueue: queue}, "account")
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func workflowID(e int) string { return "entity-" + strconv.Itoa(e) }

// Ask updates a workflow and waits until the update has been completed.
func (s *system) Ask(_, entity int) error {
	ctx := context.Background()
	h, err := s.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflowID(entity), UpdateName: update, Args: []any{s.question}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	var answer string
	if err := h.Get(ctx, &answer); err != nil || len(answer) != 16 {
		return fmt.Errorf("answer %q: %w", answer, err)
	}
	return nil
}

func (s *system) Processes() []int { return peer.Pids(s.children...) }

func (s *system) Close() error {
	if s.client != nil {
		s.client.Close()
	}
	return peer.Close(s.children...)
}

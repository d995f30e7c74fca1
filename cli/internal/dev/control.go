package dev

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/adminclient"
)

// orderTimeout bounds an order: a region that stops drains for up to 20 s.
const orderTimeout = 40 * time.Second

// control accepts orders for the dev cluster from other roost commands. They must have
// the token in the state file; web pages, which can also reach loopback, do not have it.
type control struct {
	token    string
	listener net.Listener
	server   *http.Server

	mu      sync.Mutex
	cluster *cluster.Cluster
}

func newControl() (*control, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &control{token: rand.Text(), listener: listener}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{order}/{name}", c.serve)
	c.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	}), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = c.server.Serve(listener) }()
	return c, nil
}

// at returns the address and token of the control.
func (c *control) at() cluster.Control {
	return cluster.Control{URL: "http://" + c.listener.Addr().String(), Token: c.token}
}

// open starts to accept orders.
func (c *control) open(to *cluster.Cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cluster = to
}

func (c *control) close() { _ = c.server.Close() }

func (c *control) serve(w http.ResponseWriter, r *http.Request) {
	given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(given), []byte(c.token)) != 1 {
		http.Error(w, "the token is wrong", http.StatusForbidden)
		return
	}
	c.mu.Lock()
	to := c.cluster
	c.mu.Unlock()
	if to == nil {
		http.Error(w, "the cluster is still starting", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	name := r.PathValue("name")
	var err error
	switch order := r.PathValue("order"); order {
	case "kill":
		err = to.Kill(name)
	case "stop":
		err = to.Stop(ctx, name)
	case "start":
		if err = running(to, name); err == nil {
			err = to.Restart(ctx, name)
		}
		if err == nil {
			err = to.Ready(ctx, name)
		}
	default:
		err = fmt.Errorf("there is no order %q", order)
	}
	switch {
	case errors.Is(err, cluster.ErrUnknown):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

// running returns an error if the process is running.
func running(c *cluster.Cluster, name string) error {
	for _, p := range c.Processes() {
		if p.Name == name && p.PID != 0 {
			return fmt.Errorf("%s is running already", name)
		}
	}
	return nil
}

// orderCommand returns the command roost dev kill, stop or start.
func (a *group) orderCommand(order, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: order + " NAME", Short: short, Long: long, Args: app.OneName,
		Example: "  roost dev " + order + " region-2",
		RunE: func(cmd *cobra.Command, args []string) error {
			state, err := a.State("say with --dir where one runs")
			if err != nil {
				return err
			}
			if order == "stop" {
				a.warnOfStop(cmd.Context(), state, args[0])
			}
			begin := time.Now()
			if err := send(cmd.Context(), state.Control, order, args[0]); err != nil {
				return err
			}
			took := time.Since(begin)
			if a.JSON() {
				return a.PrintJSON(map[string]any{"name": args[0], "done": order, "took_ms": took.Milliseconds()})
			}
			done := map[string]string{"kill": "killed", "stop": "stopped", "start": "started"}[order]
			_, err = fmt.Fprintf(a.Out, "%s %s in %.2f s\n", args[0], done, took.Seconds())
			return err
		},
	}
}

// warnOfStop warns of the shards of a region that no other one can be given. If no
// coordinator answers, it prints nothing and the process can still be stopped.
func (a *group) warnOfStop(ctx context.Context, state *cluster.State, name string) {
	res, err := adminclient.NewWith(adminclient.Options{Token: state.Token}, state.Admin()...).UnmovableShards(ctx, name)
	if err != nil {
		return
	}
	for _, u := range res.Stays {
		why := "there is no other region that could be given them"
		if u.Region != "" {
			why = phrase.Missing(u)
		}
		fmt.Fprintf(a.Err, "warning: commands for %s of type %s (%s) may be refused without %s: %s\n", phrase.Plural(len(u.Shards), "shard"), u.Type, phrase.SomeOf(u.Shards), name, why)
	}
}

// send sends an order to a running roost dev.
func send(ctx context.Context, to cluster.Control, order, name string) error {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL+"/"+order+"/"+url.PathEscape(name), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+to.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%w: roost dev does not answer: %w", adminclient.ErrUnreachable, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusOK {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	why := strings.TrimSpace(string(text))
	if res.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: see roost dev ps for the names", app.NotFound(why))
	}
	return errors.New(why)
}

// devListCommand returns the command roost dev ps.
func (a *group) devListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ps", Short: "List the processes of the dev cluster", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			state, err := a.State("say with --dir where one runs")
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(state.Processes)
			}
			var rows [][]any
			for _, p := range state.Processes {
				pid := any(p.PID)
				if p.PID == 0 {
					pid = "-"
				}
				rows = append(rows, []any{p.Name, p.State, pid, p.Service, p.Management, p.Log})
			}
			return a.PrintTable([]string{"NAME", "STATE", "PID", "SERVICE", "MANAGEMENT", "LOG"}, rows, "PID")
		},
	}
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/cli/internal/phrase"
	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/bootstrap"
	"github.com/roost-cluster/roost/libs/discovery"
)

const discoveryHelp = `Lists the peers that a discovery backend knows. The URL is the one that the processes
of the cluster have as discovery.url, or the environment variable ROOST_DISCOVERY_URL:

  static://host:port,host:port      file:/etc/roost/peers
  dns://resolver/name?port=25521    etcd://host:2379/path
  consul://host:8500/service        kubernetes://namespace/service

docs/running/discovery.md has the parameters of each.

--test tests the backend step by step: the URL, whether it answers, what it answers, whether
it reports changes, and whether the peers it lists accept connections. What fails
is explained, with what to do next, and the exit code is 1.
With --write it also enters a peer, 127.0.0.1:1, where processes enter themselves,
and removes it again; running processes may try to reach it for a moment.`

// discoveryURL are the flags of the discovery commands.
type discoveryURL struct {
	cluster string
	timeout time.Duration
}

func (a *group) discoveryCommand() *cobra.Command {
	var u discoveryURL
	var test, write, watch bool
	cmd := &cobra.Command{
		Use: "discovery [URL]", Short: "Show, watch or test a discovery backend", Args: cobra.MaximumNArgs(1),
		Long: discoveryHelp,
		Example: "  roost cluster discovery etcd://127.0.0.1:2379/roost\n  roost cluster discovery --watch\n" +
			"  roost cluster discovery --test 'dns:///_roost._tcp.example.net'\n  roost cluster discovery --test --write consul://127.0.0.1:8500/roost",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case test && watch:
				return app.Usage(errors.New("--test cannot be combined with --watch"))
			case write && !test:
				return app.Usage(errors.New("--write is for --test"))
			case test:
				return a.testDiscovery(cmd.Context(), u, args, write)
			case watch:
				return a.watchPeers(cmd.Context(), u, args)
			}
			return a.listPeers(cmd.Context(), u, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&u.cluster, "cluster", os.Getenv("ROOST_CLUSTER_NAME"), "name of the cluster; entries of another one are an error. Empty: not checked; env ROOST_CLUSTER_NAME")
	flags.DurationVar(&u.timeout, "timeout", discovery.DefaultConfig().Timeout, "time for one lookup")
	flags.BoolVar(&watch, "watch", false, "print the peers, then every change, until Ctrl-C")
	flags.BoolVar(&test, "test", false, "test the backend step by step")
	flags.BoolVar(&write, "write", false, "with --test: enter a peer, and take it out again")
	return cmd
}

// open opens the backend; it also returns the URL without secrets.
func (u discoveryURL) open(ctx context.Context, args []string) (discovery.Backend, string, error) {
	url := os.Getenv("ROOST_DISCOVERY_URL")
	if len(args) > 0 {
		url = args[0]
	}
	if url == "" {
		return nil, "", app.Usage(errors.New("which discovery? write a URL, or set ROOST_DISCOVERY_URL"))
	}
	url = bootstrap.Expand(url, u.cluster)
	d, err := discovery.Open(url, u.cluster)
	if err != nil {
		return nil, "", app.Usage(err)
	}
	return d, backendurl.Redact(url), nil
}

func (u discoveryURL) watch(d discovery.Backend) (*discovery.Watch, error) {
	c := discovery.DefaultConfig()
	c.Timeout = u.timeout
	w, err := discovery.NewWatch(d, c, nil)
	if err != nil {
		return nil, app.Usage(err)
	}
	return w, nil
}

// listedPeer is the JSON of a peer.
type listedPeer struct {
	Addr string `json:"addr"`
	Role string `json:"role,omitempty"`
}

func (a *group) listPeers(ctx context.Context, u discoveryURL, args []string) error {
	d, url, err := u.open(ctx, args)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	w, err := u.watch(d)
	if err != nil {
		return err
	}
	answer := w.Lookup(ctx)
	if answer.Err != nil {
		return answer.Err
	}
	took := w.Stats().Took
	if a.JSON() {
		peers := []listedPeer{}
		for _, p := range answer.Peers {
			peers = append(peers, listedPeer{p.Addr, p.Role})
		}
		return a.PrintJSON(struct {
			URL    string       `json:"url"`
			Peers  []listedPeer `json:"peers"`
			Millis int64        `json:"took_ms"`
		}{url, peers, took.Milliseconds()})
	}
	var rows [][]any
	for _, p := range answer.Peers {
		rows = append(rows, []any{roleOf(p), p.Addr})
	}
	if len(rows) > 0 {
		if err := a.PrintTable([]string{"ROLE", "ADDRESS"}, rows); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.Out, "%s, asked in %s\n", phrase.Plural(len(rows), "peer"), took.Round(100*time.Microsecond))
	return err
}

func roleOf(p discovery.Peer) string {
	if p.Role == "" {
		return "-"
	}
	return p.Role
}

// watchPeers prints peers that are added and removed, and when lookups start and stop
// failing.
func (a *group) watchPeers(ctx context.Context, u discoveryURL, args []string) error {
	d, _, err := u.open(ctx, args)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	w, err := u.watch(d)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := make(chan []discovery.Peer)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, func(answer discovery.Answer) {
			select {
			case changes <- answer.Peers:
			case <-ctx.Done():
			}
		})
	}()
	defer func() { cancel(); <-done }()
	const lookEvery = 200 * time.Millisecond // for failures
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var known []discovery.Peer
	failing := false
	for {
		select {
		case peers := <-changes:
			if err := a.printChanges(known, peers); err != nil {
				return err
			}
			known = peers
		case <-look.C:
			err := w.Peers().Err
			if (err != nil) == failing {
				continue
			}
			failing = err != nil
			text := "answers again"
			if failing {
				text = err.Error()
			}
			if err := a.printChange("!", discovery.Peer{}, text); err != nil {
				return err
			}
		case <-ctx.Done():
			return app.ErrInterrupted
		}
	}
}

func (a *group) printChanges(old, now []discovery.Peer) error {
	for _, p := range old {
		if !slices.Contains(now, p) {
			if err := a.printChange("-", p, ""); err != nil {
				return err
			}
		}
	}
	for _, p := range now {
		if !slices.Contains(old, p) {
			if err := a.printChange("+", p, ""); err != nil {
				return err
			}
		}
	}
	if len(now) == 0 {
		return a.printChange("=", discovery.Peer{}, "no peers")
	}
	return nil
}

func (a *group) printChange(what string, p discovery.Peer, text string) error {
	now := time.Now()
	if a.JSON() {
		return a.PrintJSON(struct {
			Time   time.Time `json:"time"`
			Change string    `json:"change"`
			Addr   string    `json:"addr,omitempty"`
			Role   string    `json:"role,omitempty"`
			Text   string    `json:"text,omitempty"`
		}{now, what, p.Addr, p.Role, text})
	}
	if text == "" {
		text = fmt.Sprintf("%-12s %s", roleOf(p), p.Addr)
	}
	_, err := fmt.Fprintf(a.Out, "%s  %s  %s\n", now.Format("15:04:05.000"), what, text)
	return err
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/bootstrap"
	"github.com/roost-cluster/roost/libs/lease"
)

const (
	// leaseTimeout bounds one request to a lease store.
	leaseTimeout = 5 * time.Second
	// leaseLook is the pause between two reads of a record: several times per renewal
	// with the default configuration.
	leaseLook = 100 * time.Millisecond
)

const leaseShowHelp = `Shows who holds the lease that makes a coordinator the active one, and whether it
is being renewed: the record is watched until it changes, or until its time to
live is over. No clocks are compared.

The URL is --lease.url of the coordinators; without one, the lease of the
cluster that "roost dev" runs in --dir is shown. It needs no running coordinator.`

func (a *group) leaseCommand() *cobra.Command {
	var name string
	var test bool
	cmd := &cobra.Command{
		Use: "lease [URL]", Short: "Show the holder of the coordinators' lease", Long: leaseShowHelp,
		Args:    cobra.MaximumNArgs(1),
		Example: "  roost cluster lease\n  roost cluster lease etcd://127.0.0.1:2379/roost --cluster shop --test",
		RunE: func(cmd *cobra.Command, args []string) error {
			url := ""
			if len(args) == 1 {
				url = args[0]
			}
			return a.showLease(cmd.Context(), url, name, test)
		},
	}
	cmd.Flags().StringVar(&name, "cluster", "", "name of the cluster; default: the name that roost dev uses, else \"dev\"")
	cmd.Flags().BoolVar(&test, "test", false, "also write a record of its own, to see whether the lease could be taken")
	return cmd
}

// leaseState is the result of roost cluster lease.
type leaseState struct {
	Name    string `json:"name"`
	State   string `json:"state"` // none, free, held or expired
	Holder  string `json:"holder,omitempty"`
	UID     string `json:"uid,omitempty"`
	Term    uint32 `json:"term"`
	Version uint64 `json:"version"`
	TTL     string `json:"ttl,omitempty"`
	Test    string `json:"test,omitempty"` // "passed"
}

func (a *group) showLease(ctx context.Context, url, name string, test bool) error {
	if url == "" || name == "" {
		state, err := a.State("write the URL of its lease")
		switch {
		case err == nil && url == "":
			url, name = state.Lease, state.Cluster
		case err == nil && state.Lease == url:
			name = state.Cluster
		case url == "":
			return err
		}
	}
	if name == "" {
		name = "dev"
	}
	s, err := openLease(ctx, bootstrap.Expand(url, name))
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // nothing is lost
	got, err := watchLease(ctx, s, "coordinator."+name)
	if err != nil {
		return err
	}
	if test {
		ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
		defer cancel()
		if err := lease.Check(ctx, s, "coordinator."+name+".check"); err != nil {
			return fmt.Errorf("the test failed: %w", err)
		}
		got.Test = "passed"
	}
	if a.JSON() {
		return a.PrintJSON(got)
	}
	return a.printLease(got)
}

// openLease opens an existing store.
func openLease(ctx context.Context, url string) (lease.Backend, error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		if _, err := os.Stat(strings.TrimPrefix(path, "//")); err != nil {
			return nil, fmt.Errorf("there is no lease file: %w", err)
		}
	}
	if strings.HasPrefix(url, "memory:") {
		return nil, app.Usage(errors.New("memory: is private to a coordinator; ask it with roost cluster status"))
	}
	s, err := lease.Open(ctx, url)
	if errors.Is(err, lease.ErrConfig) {
		return nil, app.Usage(err)
	}
	return s, err
}

// watchLease reads a record, and checks whether its holder renews it.
func watchLease(ctx context.Context, s lease.Backend, name string) (leaseState, error) {
	first, err := readLease(ctx, s, name)
	got := leaseState{
		Name: name, State: "none", Holder: first.Holder.Addr, Term: uint32(first.Term), Version: first.Version,
	}
	switch {
	case err != nil || first.Version == 0:
		return got, err
	case first.Holder.IsZero():
		got.State = "free"
		return got, nil
	}
	got.State, got.TTL, got.UID = "expired", first.TTL.String(), fmt.Sprint(first.Holder.UID)
	for end := time.Now().Add(first.TTL); time.Now().Before(end); {
		select {
		case <-time.After(leaseLook):
		case <-ctx.Done():
			return got, ctx.Err()
		}
		next, err := readLease(ctx, s, name)
		if err != nil {
			return got, err
		}
		if next.Version != first.Version || next.Nonce != first.Nonce {
			got.State = "held"
			got.Holder, got.UID = next.Holder.Addr, fmt.Sprint(next.Holder.UID)
			got.Term, got.Version = uint32(next.Term), next.Version
			break
		}
	}
	return got, nil
}

func readLease(ctx context.Context, s lease.Backend, name string) (lease.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	return s.Get(ctx, name)
}

func (a *group) printLease(l leaseState) error {
	var text string
	switch l.State {
	case "none":
		text = "there is no such lease: no coordinator of this cluster has ever been active with this store"
	case "free":
		text = fmt.Sprintf("free since the holder of term %d released it", l.Term)
	case "held":
		text = fmt.Sprintf("held by %s in term %d, and renewed", l.Holder, l.Term)
	default:
		text = fmt.Sprintf("expired: %s held it in term %d and has not renewed it for %s; the next candidate will take it", l.Holder, l.Term, l.TTL)
	}
	if l.Test != "" {
		text += "\nthe store can be written"
	}
	_, err := fmt.Fprintf(a.Out, "%s: %s\n", l.Name, text)
	return err
}

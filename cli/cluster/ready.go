package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// readyPoll is the pause between two looks at /readyz.
	readyPoll = 20 * time.Millisecond
	// maxReady is the number of bytes read of an answer at most.
	maxReady = 16 << 10
)

// Ready returns when /readyz of every started process answers 200, or of the
// named ones. It fails when one of them died or ctx ends, with an error that
// names the processes that were not ready, and why.
func (c *Cluster) Ready(ctx context.Context, names ...string) error {
	for _, name := range names {
		if _, err := c.find(name); err != nil {
			return err
		}
	}
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		var missing []string
		for _, p := range c.Processes() {
			if len(names) > 0 && !slices.Contains(names, p.Name) {
				continue
			}
			switch {
			case p.State == Died:
				message := fmt.Sprintf("%s died (%s)", p.Name, p.Reason)
				return fmt.Errorf("%s", strings.Join(append([]string{message}, p.LastLines...), "\n  "))
			case p.PID == 0:
				if len(names) > 0 {
					return fmt.Errorf("%s is not running", p.Name)
				}
			default:
				if why := c.notReady(ctx, p); why != "" {
					missing = append(missing, p.Name+": "+why)
				}
			}
		}
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w\n  %s", context.Cause(ctx), strings.Join(missing, "\n  "))
		}
	}
}

// notReady returns the reason why a process is not ready, or "" if it is.
func (c *Cluster) notReady(ctx context.Context, p Process) string {
	// When the caller's time is over, the last reason is still wanted.
	status, body, err := c.readyz(context.WithoutCancel(ctx), p)
	switch {
	case err != nil:
		return err.Error()
	case status == http.StatusOK:
		return ""
	}
	return fmt.Sprintf("%d %s: %s", status, http.StatusText(status), strings.Join(strings.Fields(body), " "))
}

// readyz asks a process whether it is ready.
func (c *Cluster) readyz(ctx context.Context, p Process) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Management+"/readyz", nil)
	if err != nil {
		return 0, "", err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(io.LimitReader(res.Body, maxReady))
	return res.StatusCode, string(b), nil
}

// Warning is a warning of a process's readiness check. It does not make the process unready.
type Warning struct{ Process, Check, Text string }

// Warnings returns the warnings of the processes with a role. It skips processes that do not answer.
func (c *Cluster) Warnings(ctx context.Context, role string) (list []Warning) {
	for _, p := range c.Processes() {
		if p.Role != role || p.PID == 0 {
			continue
		}
		_, body, err := c.readyz(ctx, p)
		if err != nil {
			continue
		}
		for line := range strings.Lines(body) {
			if what, ok := strings.CutPrefix(strings.TrimSpace(line), "[!] "); ok {
				check, text, _ := strings.Cut(what, ": ")
				list = append(list, Warning{Process: p.Name, Check: check, Text: text})
			}
		}
	}
	return list
}

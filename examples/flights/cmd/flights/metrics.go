package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/cli/cluster"
)

const (
	// resentCounter counts, at a gateway, all attempts but the first of each command.
	resentCounter = "roost_gateway_retries_total"
	// metricsPoll is the time between two reads.
	metricsPoll = time.Second
	// maxMetrics bounds the part of one answer that is read, in bytes.
	maxMetrics = 4 << 20
)

// resent counts the attempts that gateways repeated themselves, so that the client saw no
// error.
type resent struct {
	urls  []string
	http  *http.Client
	count atomic.Int64
}

func newResent(processes []cluster.Process) *resent {
	r := &resent{http: &http.Client{Timeout: 2 * time.Second}}
	for _, p := range processes {
		if p.Role == cluster.Gateway {
			r.urls = append(r.urls, "http://"+p.Management+"/metrics")
		}
	}
	return r
}

// watch keeps the count up to date until ctx ends.
func (r *resent) watch(ctx context.Context) {
	poll := time.NewTicker(metricsPoll)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
			r.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// look reads the count once. If a gateway does not answer, the last count is kept: it is only
// displayed.
func (r *resent) look(ctx context.Context) {
	var sum int64
	for _, url := range r.urls {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return
		}
		res, err := r.http.Do(req)
		if err != nil {
			return
		}
		sum += readCounter(io.LimitReader(res.Body, maxMetrics), resentCounter)
		_ = res.Body.Close()
	}
	r.count.Store(sum)
}

// readCounter sums a counter over its labels, in Prometheus' text format.
func readCounter(text io.Reader, name string) (sum int64) {
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		rest, found := strings.CutPrefix(lines.Text(), name)
		if !found || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		fields := strings.Fields(rest[strings.LastIndexByte(rest, '}')+1:])
		if len(fields) == 0 {
			continue
		}
		if v, err := strconv.ParseFloat(fields[0], 64); err == nil {
			sum += int64(v)
		}
	}
	return sum
}

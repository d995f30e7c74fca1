package ui

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator/console/dashboard"
)

// large is a cluster of 50 regions and 10,000 shards, as its coordinator would describe it. With each
// sample, some shards move on.
type large struct {
	adminv1.Admin
	mu     sync.Mutex
	round  int
	owners []int
	phases []string
}

const largeRegions, largeShards = 50, 10_000

var largeTypes = []struct {
	name   string
	shards uint32
}{{"Account", 4096}, {"Cart", 2048}, {"Device", 2048}, {"Session", 1808}}

func newLarge() *large {
	l := &large{owners: make([]int, largeShards), phases: make([]string, largeShards)}
	for i := range l.owners {
		l.owners[i], l.phases[i] = (i*7+i/50)%largeRegions, "serving"
	}
	return l
}

func region(i int) string { return fmt.Sprintf("region-%02d", i+1) }

func (l *large) Members(context.Context, *adminv1.MembersRequest) (*adminv1.MembersResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.round++
	for n := range 40 { // what moves is in three phases, one after the other
		i := (l.round/3*40 + n) * 37 % largeShards
		switch l.round % 3 {
		case 0:
			l.phases[i] = "handing-off"
		case 1:
			l.owners[i], l.phases[i] = (l.owners[i]+11)%largeRegions, "starting"
		case 2:
			l.phases[i] = "serving"
		}
	}
	res := &adminv1.MembersResponse{Self: "coordinator-1", Active: "10.0.0.1:25521", Term: 7}
	for i := range 3 {
		res.Members = append(res.Members, &adminv1.Member{Name: fmt.Sprintf("coordinator-%d", i+1), Roles: []string{"coordinator"}, Status: "up", Reachable: true, Active: i == 0, Addr: fmt.Sprintf("10.0.0.%d:25521", i+1)})
	}
	for i := range largeRegions {
		m := &adminv1.Member{
			Name: region(i), Roles: []string{"region"}, Status: "up", Reachable: i != 17, Cordoned: i == 30, Addr: fmt.Sprintf("10.0.1.%d:25522", i+1), Zone: string(rune('a' + i%3)), AppVersion: "v3",
			Load: &adminv1.Load{Cost: 1.2 + float64(i%7)/5, Commands: 2100 + float64(i*13%400), Entities: float64(41_000 + i*97), Processors: 8, MemoryUsed: 3 << 30, MemoryLimit: 8 << 30},
		}
		for _, o := range l.owners {
			if o == i {
				m.Shards++
			}
		}
		res.Members = append(res.Members, m)
	}
	for i := range 6 {
		res.Gateways = append(res.Gateways, &adminv1.Gateway{Addr: fmt.Sprintf("10.0.2.%d:8080", i+1), Commands: 18_000 + float64(i*100) + float64(l.round%5*150), Refused: 2, P50Us: 1900, P99Us: int64(11_000 + l.round%4*900)})
	}
	return res, nil
}

func (l *large) Shards(context.Context, *adminv1.ShardsRequest) (*adminv1.ShardsResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	res, i := &adminv1.ShardsResponse{}, 0
	for _, t := range largeTypes {
		res.Types = append(res.Types, &adminv1.TypeSummary{Type: t.name, Shards: t.shards, Allocated: t.shards})
		for index := range t.shards {
			s := &adminv1.Shard{Type: t.name, Index: index, Region: region(l.owners[i]), Addr: "10.0.1.1:1", Epoch: "7.1", Phase: l.phases[i]}
			if i%2500 == 7 {
				s.Reason, s.Region, s.Addr = "unreadable", "", ""
			}
			res.Shards = append(res.Shards, s)
			i++
		}
	}
	return res, nil
}

// TestLarge: 50 regions and 10,000 shards are shown, and can be used by the keyboard, in both colours.
func TestLarge(t *testing.T) {
	b := open(t)
	l := newLarge()
	d := dashboard.New(dashboard.Config{Admin: l, API: adminv1.NewAdminServer(l), Elsewhere: func(context.Context) string { return "" }, SampleEvery: 500 * time.Millisecond})
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	for _, dark := range []bool{false, true} {
		b.dark(dark)
		b.visit(server.URL + "/ui/")
		b.await("a card for each region, and one for the shards without one", cards+" === 51")
		b.await("all shards", shards+" === 10000")
		b.await("moves as they happen", `document.querySelectorAll(".moves li time").length >= 14 && document.body.innerText.includes("handing off")`)
		b.says("4 unreadable shards")
		if wide := eval[bool](b, `document.documentElement.scrollWidth > document.documentElement.clientWidth`); wide {
			b.Error("the page is wider than the window")
		}
		eval[bool](b, `(document.querySelectorAll(".region canvas")[49].focus({ preventScroll: true }), true)`)
		b.keys(right)
		b.await("that the keyboard reaches a shard", `document.querySelector(".map-status").textContent.includes("region-50")`)
		if dark {
			b.picture("dashboard-large")
		}
	}
	took := eval[float64](b, `(() => { const began = performance.now(); dispatchEvent(new Event("resize")); return performance.now() - began; })()`)
	t.Logf("drawing everything took %.0f ms", took)
	b.clean()
}

func (l *large) Where(context.Context, *adminv1.WhereRequest) (*adminv1.WhereResponse, error) {
	return &adminv1.WhereResponse{}, nil
}

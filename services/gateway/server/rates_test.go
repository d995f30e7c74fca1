package server

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestRates: each sender has its own rate and burst, and what is remembered is bounded.
func TestRates(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := newRates(&Config{PrincipalRate: 10, PrincipalBurst: 3, Principals: 100})
	for i := range 3 {
		if wait := r.wait("anna", now); wait != 0 {
			t.Fatalf("command %d waits %s", i, wait)
		}
	}
	for range 5 { // a refusal costs nothing
		if wait := r.wait("anna", now); wait != 100*time.Millisecond {
			t.Errorf("the fourth command waits %s, want 100ms", wait)
		}
	}
	if wait := r.wait("bob", now); wait != 0 {
		t.Errorf("another principal waits %s", wait)
	}
	now = now.Add(100 * time.Millisecond)
	if wait := r.wait("anna", now); wait != 0 {
		t.Errorf("after that time it still waits %s", wait)
	}
	for i := range 10_000 {
		r.wait(strconv.Itoa(i), now)
	}
	if n := len(r.now) + len(r.old); n > 102 {
		t.Errorf("%d principals are remembered", n)
	}
	if none := newRates(&Config{}); none.wait("anna", now) != 0 || len(none.now) != 0 {
		t.Error("without a limit, senders are counted")
	}
	if r := newRates(&Config{PrincipalRate: 0.5}); r.burst != 1 {
		t.Errorf("the burst of half a command per second is %d", r.burst)
	}
	from := &http.Request{RemoteAddr: "10.0.0.1:5"}
	if name := newRates(&Config{}).counted("", from); name != "" {
		t.Errorf("without a limit, a sender is counted as %q", name)
	}
	if name := r.counted("", from); name != senderOf("", from) {
		t.Errorf("with a limit, a sender is counted as %q", name)
	}
	for addr, want := range map[string]string{
		"10.0.0.1:5": "address 10.0.0.1/32", "[2001:db8::1]:5": "address 2001:db8::/64", "[::ffff:10.0.0.1]:5": "address 10.0.0.1/32", "pipe": "address",
	} {
		if got := senderOf("", &http.Request{RemoteAddr: addr}); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
	if got := senderOf("key:anna", &http.Request{RemoteAddr: "10.0.0.1:5"}); got != "key:anna" {
		t.Error(got)
	}
}

// TestPrincipalRate: a principal that sends too much gets the time of the next attempt from both APIs; others are served.
func TestPrincipalRate(t *testing.T) {
	_, g, anna, admin := guarded(t, func(c *Config) { c.PrincipalRate, c.PrincipalBurst = 0.001, 2 })
	do := func(token string) answered {
		t.Helper()
		return g.do(t, "POST", "/v1/Echo/anna%2F1/Do", `"x"`, "Authorization", "Bearer "+token)
	}
	for range 2 {
		if got := do(anna); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	got := do(anna)
	seconds, err := strconv.Atoi(got.header.Get("Retry-After"))
	if got.status != 429 || !strings.Contains(got.body, `"error":"ROOST-1018"`) || !strings.Contains(got.body, `"outcome":"not_applied"`) || err != nil || seconds < 900 || seconds > 1000 {
		t.Errorf("the third command: %d %s, Retry-After %q", got.status, got.body, got.header.Get("Retry-After"))
	}
	if got := do(admin); got.status != 200 {
		t.Errorf("another principal: %d %s", got.status, got.body)
	}
	item := `{"type":"Echo","id":"anna/1","command":"Do","payload":"IngK"}`
	many := g.do(t, "POST", "/twirp/roost.gateway.v1.Entities/AskMany", fmt.Sprintf(`{"items":[%s,%s]}`, item, item), "Content-Type", "application/json", "Authorization", "Bearer "+admin)
	if many.status != 200 || strings.Count(many.body, "ROOST-1018") != 1 {
		t.Errorf("the second and third command of a principal in one request: %d %s", many.status, many.body)
	}
	if one := g.do(t, "POST", "/twirp/roost.gateway.v1.Entities/Ask", item, "Content-Type", "application/json", "Authorization", "Bearer "+anna); one.status != 429 || one.header.Get("Retry-After") == "" {
		t.Errorf("by Ask: %d %s", one.status, one.body)
	}
}

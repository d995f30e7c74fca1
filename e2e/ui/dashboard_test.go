package ui

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// cards is the number of cards of regions on the map, and shards the number of their shards together.
const (
	cards  = `document.querySelectorAll(".region").length`
	shards = `Array.from(document.querySelectorAll(".region .shards")).reduce((n, e) => n + parseInt(e.textContent.replaceAll(",", "")), 0)`
)

func card(region string) string {
	return `document.querySelector('.region[data-region="` + region + `"]')`
}

// TestDashboard looks at a cluster of real processes; a region is killed meanwhile.
func TestDashboard(t *testing.T) {
	b := open(t)
	c := start(t)
	c.load()
	active, _, err := c.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	admin := c.Admin()
	activeURL, standbyURL := admin[0], admin[1]
	if active == "coordinator-2" {
		activeURL, standbyURL = standbyURL, activeURL
	}

	b.visit(standbyURL + "/ui/")
	b.await("that the standby sends the browser to the active coordinator", `location.href === "`+activeURL+`/ui/#/" || location.href === "`+activeURL+`/ui/"`)
	b.await("that the page is live", `document.getElementById("live").className === "on"`)
	b.await("a card for each region", cards+" === 3")
	b.await("many shards", shards+" > 150")
	b.await("a rate of commands", `Array.from(document.querySelectorAll(".tile")).some((e) => e.innerText.startsWith("Commands") && parseFloat(e.querySelector(".value").innerText) > 5)`)
	b.await("that the first allocations are not marked any more", `Array.from(document.querySelectorAll(".moves time")).every((e) => Date.now() % 86400000 / 1000 - e.textContent.split(":").reduce((n, x) => 60 * n + +x, 0) > 5)`)
	b.picture("dashboard")
	b.keyboard()
	b.visit(activeURL + "/ui/#/")
	b.kill(c)
	b.entity(activeURL)
	b.pages(activeURL)
	b.clean()
	b.coordinator(c, active, activeURL)
	b.clean()
}

// coordinator stops the active coordinator, and then starts it again while the page is open: the page is marked as
// old, and goes to the coordinator that is active now.
func (b *browser) coordinator(c *cluster, active, activeURL string) {
	b.Helper()
	b.visit(activeURL + "/ui/#/members")
	b.await("that the page is live", `document.getElementById("live").className === "on"`)
	if err := c.Kill(active); err != nil {
		b.Fatal(err)
	}
	b.says("The coordinator does not answer. What is shown is old.")
	if err := c.Restart(b.Context(), active); err != nil {
		b.Fatal(err)
	}
	b.await("that the page goes to the coordinator that is active now", `location.origin !== "`+activeURL+`" && document.getElementById("live")?.className === "on"`)
	b.says("is active, term 2")
}

// keyboard goes to a shard and opens it without a pointer.
func (b *browser) keyboard() {
	b.Helper()
	eval[bool](b, `(document.querySelector(".region canvas").focus(), true)`)
	before := eval[string](b, `document.querySelector(".map-status").textContent`)
	b.keys(right, right)
	if after := eval[string](b, `document.querySelector(".map-status").textContent`); after == before || !strings.Contains(after, "Counter/") || !strings.Contains(after, "region-1") {
		b.Errorf("after two presses of the right arrow the page says %q, before it said %q", after, before)
	}
	b.keys(enter)
	b.await("that Enter opens the shard", `location.hash.startsWith("#/shard/Counter/")`)
	b.says("What was decided about it")
	b.says("given")
}

// kill kills a region while the page is open, and waits until the page has shown all of it.
func (b *browser) kill(c *cluster) {
	b.Helper()
	b.await("a card for each region", cards+" === 3")
	b.await("shards at region-2", card("region-2")+`?.querySelector(".shards").textContent.match(/^[1-9]/)`)
	if err := c.Kill("region-2"); err != nil {
		b.Fatal(err)
	}
	b.await("that the killed region is shown as unreachable", card("region-2")+`?.classList.contains("gone") && document.querySelector(".attention")?.innerText.includes("region-2")`)
	b.await("moves away from the killed region", `document.querySelector(".moves").innerText.includes("region-2 →")`)
	b.picture("dashboard-killed")
	b.await("that the killed region is gone", card("region-2")+" === null")
	b.await("that the others have all shards", shards+" > 150 && "+cards+" === 2")
}

// entity looks at an entity with a hostile id, and sends it a command.
func (b *browser) entity(admin string) {
	b.Helper()
	b.visit(admin + "/ui/#/entity/Counter/" + url.PathEscape(hostile))
	b.says("Counter/" + hostile)
	b.says("added")
	b.await("the commands of the form", `document.querySelector("select[name=command]")?.options.length === 2`)
	for i, shown := range []string{`document.querySelector("td pre")?.innerText.includes("Delta")`, `document.body.innerText.includes("State after record")`} {
		eval[bool](b, fmt.Sprintf(`(document.querySelectorAll("label.check input")[%d].click(), true)`, i))
		b.await("what was asked for", shown)
	}
	b.send(`{"delta": 1000000}`)
	b.says("✓ executed")
	b.await("the event of the command", `document.body.innerText.includes("1000000")`)
	eval[bool](b, `(scrollTo(0, 0), true)`)
	b.picture("dashboard-entity")
	if n := eval[int](b, `document.querySelectorAll("main img, main script").length`); n != 0 {
		b.Errorf("the hostile id has made %d elements", n)
	}
	b.send(`{"delta": 0}`)
	b.says("delta must not be 0")
	eval[bool](b, `(Array.from(document.querySelectorAll("button")).find((e) => e.innerText === "Explain").click(), true)`)
	b.says("✓ answered")
}

// send sends the command Add with the form.
func (b *browser) send(input string) {
	b.Helper()
	quoted, _ := json.Marshal(input)
	eval[bool](b, `(() => {
		const input = document.querySelector("textarea[name=input]");
		document.querySelector("select[name=command]").value = "Add";
		input.value = `+string(quoted)+`;
		input.form.requestSubmit();
		return true;
	})()`)
}

// pages opens the other pages, and looks for what each must say.
func (b *browser) pages(admin string) {
	b.Helper()
	for _, p := range []struct{ hash, says, picture string }{
		{"members", "In memory", ""},
		{"hot", hostile, ""},
		{"entities?prefix=" + url.QueryEscape("<img"), hostile, ""},
		{"entities?stored=1&type=Counter", "counter-1", ""},
		{"slow", "handler", "dashboard-slow"},
		{"rollout", "all regions run the same", ""},
		{"decisions", "given", ""},
	} {
		b.visit(admin + "/ui/#/" + p.hash)
		b.says(p.says)
		if bad := eval[string](b, `Array.from(document.querySelectorAll("main p.bad")).map((e) => e.innerText).join("\n")`); bad != "" {
			b.Errorf("page %s: %s", p.hash, bad)
		}
		if p.picture != "" {
			b.picture(p.picture)
		}
	}
	b.visit(admin + "/ui/#/entity/None/x")
	b.says("no entity type None")
	eval[bool](b, `(document.getElementById("find-text").value = "Counter/counter-1", document.getElementById("find").requestSubmit(), true)`)
	b.says("Where it is")
}

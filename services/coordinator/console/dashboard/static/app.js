// The frame of the pages: what is live, which page is shown, and the overview.
import { el, fill, clock, compact, number, rate, micros, short, sparkline, shardLink } from "./dom.js";
import { ShardMap, MapView, legend, stateOf } from "./map.js";
import { pages } from "./pages.js";

const main = document.getElementById("main");
const live = document.getElementById("live");
const notice = document.getElementById("notice");

/** What the server has sent. */
const cluster = { map: new ShardMap(), members: null, rates: [], p99: [], refused: [] };
const HISTORY = 120; // samples, of a second each

let page = null; // { update(), stop() }

// ---- live ----

function status(cls, glyph, text) {
  live.className = cls;
  live.querySelector(".glyph").textContent = glyph;
  live.querySelector(".text").textContent = text;
}

function tell(text) {
  notice.hidden = !text;
  notice.textContent = text || "";
}

let source = null; // of events; null: nobody looks
let heard = 0; // when the last sample came
let retry = 0;

function listen() {
  silence();
  const events = (source = new EventSource("events"));
  events.addEventListener("map", (e) => { cluster.map.take(JSON.parse(e.data)); });
  events.addEventListener("members", (e) => {
    heard = performance.now();
    take(JSON.parse(e.data));
    status("on", "●", "live");
    tell("");
    if (page && page.update) page.update();
  });
  events.addEventListener("trouble", (e) => { status("off", "✕", "no data"); tell("The coordinator cannot say how the cluster is: " + JSON.parse(e.data)); });
  events.addEventListener("standby", () => {
    // Another coordinator is active now: this one sends the browser there, as soon as it knows which.
    status("off", "◐", "standby");
    tell("This coordinator stands by. Looking for the active one …");
    setTimeout(() => location.reload(), 1500);
  });
  events.onerror = async () => {
    status("off", "✕", "no connection");
    if (events.readyState !== EventSource.CLOSED) { tell(GONE); return; } // the browser tries again
    const why = await reason();
    if (source !== events) return;
    tell(why);
    retry = setTimeout(listen, 3000);
  };
}

function silence() {
  clearTimeout(retry);
  if (source) source.close();
  source = null;
}

/** Nobody looks at a hidden page: the server need not sample for it. */
function looked() {
  if (document.hidden) { silence(); status("off", "◐", "paused"); } else listen();
}

function age() {
  const seconds = Math.round((performance.now() - heard) / 1000);
  if (heard && seconds > 5 && live.className === "on") status("off", "◐", "no news for " + seconds + " s");
}

const GONE = "The coordinator does not answer. What is shown is old. If it does not come back, open the dashboard of another coordinator.";

async function reason() {
  try {
    const res = await fetch("events", { headers: { Accept: "text/event-stream" } });
    if (res.ok) { res.body.cancel(); return ""; }
    return (await res.json()).msg;
  } catch {
    return GONE;
  }
}

function take(members) {
  cluster.members = members;
  const sum = (of) => members.gateways.reduce((n, g) => n + of(g), 0);
  push(cluster.rates, sum((g) => g.commands));
  push(cluster.refused, sum((g) => g.refused));
  push(cluster.p99, Math.max(0, ...members.gateways.map((g) => Number(g.p99_us))));
}

function push(list, v) {
  list.push(v);
  if (list.length > HISTORY) list.shift();
}

// ---- overview ----

function tile(label, value, unit, more, options = {}) {
  return el("div", { class: "tile" + (options.line ? " line" : "") + (options.warn ? " warn" : "") }, options.line && sparkline(options.line),
    el("div", { class: "label" }, label), el("div", { class: "value" }, value, unit && el("small", {}, " " + unit)), el("div", { class: "more" }, more));
}

function tiles() {
  const m = cluster.members;
  const regions = m.members.filter((x) => x.roles.includes("region"));
  const up = regions.filter((x) => x.status === "up" && x.reachable);
  const c = cluster.map.counts();
  const commands = cluster.rates[cluster.rates.length - 1] || 0;
  const refused = cluster.refused[cluster.refused.length - 1] || 0;
  const p50 = Math.max(0, ...m.gateways.map((g) => Number(g.p50_us)));
  const p99 = cluster.p99[cluster.p99.length - 1] || 0;
  const entities = regions.reduce((n, r) => n + (r.load ? Number(r.load.entities) : 0), 0);
  return el("div", { class: "tiles" },
    tile("Regions", up.length + " / " + regions.length, "up", m.gateways.length + (m.gateways.length === 1 ? " gateway" : " gateways"), { warn: up.length < regions.length }),
    tile("Shards", number(c.allocated), "allocated", "of " + number(c.all) + ", " + cluster.map.types.length + (cluster.map.types.length === 1 ? " type" : " types")),
    tile("Moving", number(c.moving), c.moving === 1 ? "shard" : "shards", c.unreadable ? c.unreadable + " unreadable" : m.freeze ? "frozen" : m.brake ? "brake: " + m.brake.state : "", { warn: c.unreadable > 0 }),
    tile("Entities", compact(entities), "in memory", "as the regions report it"),
    tile("Commands", rate(commands), "/s", "at all gateways", { line: cluster.rates }),
    tile("Latency", micros(p99), "p99", "p50 " + micros(p50), { line: cluster.p99 }),
    tile("Refused or unknown", rate(refused), "/s", commands > 0 ? ((100 * refused) / Math.max(commands, 1e-9)).toFixed(2) + " % of commands" : "no commands", { line: cluster.refused, warn: refused > 0.05 * commands && refused > 0.1 }));
}

function attention() {
  const m = cluster.members;
  const list = [];
  for (const x of m.members) {
    const s = stateOf(x);
    if (s.cls === "good") continue;
    list.push(el("li", { class: s.cls === "bad" ? "bad-one" : "" }, el("b", {}, s.glyph + " " + short(x.name)), s.text));
  }
  const c = cluster.map.counts();
  if (c.unreadable) list.push(el("li", { class: "bad-one" }, el("b", {}, "✕ " + c.unreadable + " unreadable shards"), "No region reads their stored data. roost rollout status says which version would."));
  if (c.ownerless) list.push(el("li", { class: "bad-one" }, el("b", {}, "✕ " + c.ownerless + " shards without a region"), "No region can be given them now."));
  if (m.freeze) list.push(el("li", {}, el("b", {}, "❄ Moves are frozen"), (m.freeze.by ? "by " + m.freeze.by + ": " : "") + (m.freeze.reason || "")));
  if (m.brake) list.push(el("li", {}, el("b", {}, "◒ Voluntary moves are held back"), m.brake.why));
  for (const q of m.quarantined) list.push(el("li", { class: "bad-one" }, el("b", {}, "✕ " + short(q.node)), "refused permanently: " + q.reason));
  const most = 8;
  if (list.length > most) {
    const n = list.length - most;
    list.length = most;
    list.push(el("li", {}, el("b", {}, "… and " + n + " more"), el("a", { href: "#/members" }, "see all members")));
  }
  return list.length ? el("ul", { class: "attention", "aria-label": "Needs attention" }, list) : null;
}

function overview() {
  const top = el("div");
  const warn = el("div");
  const moves = el("ol", { class: "moves" });
  const key = el("div");
  const pick = el("select", { id: "map-type", onchange: () => update() });
  const view = new MapView((s) => { location.hash = "#/shard/" + encodeURIComponent(s.type) + "/" + s.index; });
  let known = "";
  const split = el("div", { class: "split" },
    el("section", { class: "card" }, el("div", { class: "map-head" }, el("h2", {}, "Shards by region"), el("label", {}, "Type ", pick), key), view.status, view.grid),
    el("section", { class: "card" }, el("h2", {}, "Latest moves"), moves));
  fill(main, el("h1", { class: "hidden" }, "Overview"), top, warn, split);
  function update() {
    if (!cluster.members) { fill(top, el("p", { class: "empty" }, "Waiting for the first sample …")); return; }
    const types = cluster.map.types.map((t) => t.type).join("\n");
    if (types !== known) {
      known = types;
      const was = pick.value;
      fill(pick, el("option", { value: "" }, "all types"), cluster.map.types.map((t) => el("option", { value: t.type }, short(t.type) + (t.volatile ? " (volatile)" : ""))));
      pick.value = cluster.map.types.some((t) => t.type === was) ? was : "";
      fill(key, legend(cluster.map));
    }
    fill(top, tiles());
    fill(warn, attention());
    // Many regions need the whole width.
    split.className = cluster.members.members.filter((m) => m.roles.includes("region")).length > 12 ? "split wide" : "split";
    view.update(cluster.map, cluster.members.members, pick.value);
    const list = cluster.map.moves.slice(0, 14);
    fill(moves, list.length ? list.map((m) => el("li", {}, el("time", {}, clock(m.at)), shardLink(m.type, m.index), " ", short(m.text))) : el("li", { class: "dim" }, "none since this page was opened"));
  }
  update();
  return { update };
}

// ---- pages ----

function route() {
  if (page && page.stop) page.stop();
  const parts = location.hash.replace(/^#\/?/, "").split("?");
  const path = parts[0].split("/").map((p) => { try { return decodeURIComponent(p); } catch { return p; } });
  const query = new URLSearchParams(parts[1] || "");
  for (const a of document.querySelectorAll("nav a")) {
    const here = a.getAttribute("href") === "#/" + path[0] || (path[0] === "entity" && a.getAttribute("href") === "#/entities");
    if (here) a.setAttribute("aria-current", "page"); else a.removeAttribute("aria-current");
  }
  document.title = "Roost" + (path[0] ? " · " + path.filter(Boolean).join("/").slice(0, 80) : "");
  const show = pages[path[0]];
  page = path[0] === "" ? overview() : show ? show(main, path.slice(1), query, cluster) : unknown();
}

function unknown() {
  fill(main, el("h1", {}, "There is no such page"), el("p", {}, el("a", { href: "#/" }, "Overview")));
  return {};
}

document.getElementById("find").addEventListener("submit", (e) => {
  e.preventDefault();
  const text = document.getElementById("find-text").value.trim();
  const slash = text.indexOf("/");
  const error = document.getElementById("find-error");
  error.hidden = slash > 0 && slash < text.length - 1;
  if (!error.hidden) { error.textContent = "Write the type and the id of an entity, such as Cart/anna"; return; }
  location.hash = "#/entity/" + encodeURIComponent(text.slice(0, slash)) + "/" + encodeURIComponent(text.slice(slash + 1));
});

document.querySelector(".skip").addEventListener("click", (e) => { e.preventDefault(); main.focus(); });

async function begin() {
  const ticket = /^#ticket=([A-Za-z0-9]+)$/.exec(location.hash);
  if (ticket) {
    history.replaceState(null, "", location.pathname); // it is used up, and is nobody's business
    const res = await fetch("session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ticket: ticket[1] }) });
    if (!res.ok) tell((await res.json()).msg);
  }
  addEventListener("hashchange", () => { route(); main.focus({ preventScroll: true }); scrollTo(0, 0); });
  addEventListener("resize", () => { if (page && page.update) page.update(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => route());
  document.addEventListener("visibilitychange", looked);
  setInterval(age, 1000);
  route();
  looked();
}
begin();

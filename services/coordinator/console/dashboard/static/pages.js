// The pages besides the overview. Each asks the admin API for what it shows, again and again while it is open
// and somebody looks.
import { el, fill, call, table, facts, entityLink, shardLink, short, number, rate, size, micros, millis, percent, moment, silences, poll, running } from "./dom.js";
import { stateOf } from "./map.js";
import { entityPage } from "./entity.js";

const box = (title, ...content) => el("section", { class: "card scroll" }, title && el("h2", {}, title), content);

// ---- members ----

function members(main, _, __, cluster) {
  const body = el("div");
  const detail = el("div");
  fill(main, el("h1", {}, "Members"), body, detail);
  function update() {
    const m = cluster.members;
    if (!m) return;
    const rows = m.members.map((x) => {
      const s = stateOf(x);
      const load = x.load;
      return [short(x.name), x.roles.join(", "), el("span", { class: s.cls }, s.glyph + " " + s.text), number(x.shards),
        load ? [meter(load.divisor ? load.cost / load.divisor : 0), load.cost.toFixed(2) + " of " + Number(load.divisor.toPrecision(3))] : "–",
        load ? rate(load.commands) + "/s" : "–", load ? number(load.entities) : "–",
        load ? size(load.memory_used) + (Number(load.memory_limit) ? " of " + size(load.memory_limit) : "") : "–", x.zone || "–", short(x.app_version || "–"), x.addr];
    });
    const gateways = m.gateways.map((g) => [g.addr, rate(g.commands) + "/s", rate(g.refused) + "/s", micros(g.p50_us), micros(g.p99_us), millis(Math.max(0, Date.now() - Number(g.heard_unix_ms))) + " ago", g.management]);
    fill(body,
      box(null, table("Coordinator " + m.self + " is active, term " + m.term + ". Load is in processors, as the strategy “load” counts it.",
        [["Name"], ["Role"], ["State", "w"], ["Shards", "n"], ["Load", "w"], ["Commands", "n"], ["Entities", "n"], ["Memory", "w"], ["Zone"], ["Version"], ["Address", "w"]], rows, "no members")),
      box("Gateways", table(m.usual_p99_us > 0 ? "p99 at all gateways: " + micros(m.p99_us) + ", usually " + micros(m.usual_p99_us) : null,
        [["Address", "w"], ["Commands", "n"], ["Refused", "n"], ["p50", "n"], ["p99", "n"], ["Heard", "n"], ["Management", "w"]], gateways, "No gateway has reported yet.")),
      m.quarantined.length ? box("Refused permanently", table(null, [["Node", "w"], ["Why"]], m.quarantined.map((q) => [q.node, q.reason]), "")) : null);
  }
  update();
  const asked = poll(main, 3000, () => call("Regions"), (res) => {
    fill(detail, box("In memory", silences(res.silent, "A region"), table("What the regions say now. Rates are averages of the last half minute.",
      [["Region"], ["Type"], ["Shards", "n"], ["Entities", "n"], ["Size", "n"], ["Commands", "n"], ["Handlers", "n"], ["Waiting", "n"], ["Journal", "n"]],
      res.regions.flatMap((r) => r.types.map((h) => [short(r.region), short(h.type), number(h.shards), number(h.entities), size(h.bytes), rate(h.commands) + "/s", percent(h.handlers), h.waiting.toFixed(1), size(Math.round(h.journal_bytes)) + "/s"])), "No region has anything in memory.")));
  });
  return { update, stop: asked.stop };
}

function meter(part) {
  const bar = el("i");
  bar.style.width = Math.min(100, Math.max(0, 100 * part)).toFixed(0) + "%";
  return el("span", { class: "meter", "aria-hidden": "true" }, bar);
}

// ---- hot ----

function hot(main) {
  const body = el("div");
  fill(main, el("h1", {}, "Hot shards and entities"), body);
  return poll(main, 2000, () => call("Top", { shards: 20, entities: 30 }), (res) => {
    const top = Math.max(1e-9, ...res.entities.map((e) => e.commands));
    fill(body, silences(res.silent, "A region"),
      box("Entities", table("Estimates of the regions; handlers in percent of one processor.", [["Entity"], ["Shard", "w"], ["Region"], ["Commands", "n"], ["", "w"], ["Handlers", "n"]],
        res.entities.map((e) => [entityLink(e.type, e.id), shardLink(e.type, e.index), short(e.region), rate(e.commands) + "/s", meter(e.commands / top), percent(e.handlers)]), "Nothing has had a command in the last minutes.")),
      box("Shards", table(null, [["Shard", "w"], ["Region"], ["Commands", "n"], ["Handlers", "n"], ["Waiting", "n"], ["Entities", "n"], ["Size", "n"]],
        res.shards.map((s) => [shardLink(s.type, s.index), short(s.region), rate(s.commands) + "/s", percent(s.handlers), s.waiting.toFixed(1), number(s.entities), size(s.bytes)]), "Nothing has had a command in the last minutes.")));
  });
}

// ---- entities ----

function entities(main, _, query, cluster) {
  const types = cluster.map.types.map((t) => t.type);
  const input = (name, props = {}) => el("input", { name, value: query.get(name) || "", spellcheck: "false", autocomplete: "off", ...props });
  const type = el("select", { name: "type" }, el("option", { value: "" }, "all types"), types.map((t) => el("option", { value: t }, short(t))));
  type.value = query.get("type") || "";
  const stored = el("input", { type: "checkbox", name: "stored", checked: query.get("stored") === "1" });
  const hung = el("input", { type: "checkbox", name: "hung", checked: query.get("hung") === "1" });
  const prefix = input("prefix");
  const region = input("region");
  const form = el("form", { class: "filter", onsubmit: (e) => {
    e.preventDefault();
    const q = new URLSearchParams();
    for (const [k, v] of [["type", type.value], ["prefix", prefix.value], ["region", region.value], ["stored", stored.checked ? "1" : ""], ["hung", hung.checked && !stored.checked ? "1" : ""]]) if (v) q.set(k, v);
    location.hash = "#/entities?" + q;
  } }, el("label", {}, "Type", type), el("label", {}, "Id begins with", prefix), el("label", {}, "Region", region),
    el("label", { class: "check" }, stored, "stored, not only in memory"), el("label", { class: "check" }, hung, "a turn runs for a second"), el("button", { class: "main" }, "Show"));
  const body = el("div");
  fill(main, el("h1", {}, "Entities"), form, body);
  const isStored = stored.checked;
  const request = { type: type.value, prefix: prefix.value, region: region.value, stored: isStored, running_ms: hung.checked && !isStored ? 1000 : 0, after: query.get("after") || "", limit: 200 };
  return poll(main, isStored ? 0 : 3000, () => call("Entities", request), (res) => {
    const next = new URLSearchParams(query);
    next.set("after", res.next);
    const columns = isStored ? [["Entity"], ["Shard", "w"], ["Region"]] : [["Entity"], ["Shard", "w"], ["Region"], ["State", "w"], ["Mailbox", "n"], ["Running"], ["Idle", "n"], ["Record", "n"]];
    fill(body, silences(res.silent, "A region"), box(null, table(null, columns, res.entities.map((e) => {
      const row = [entityLink(e.type, e.id), shardLink(e.type, e.index), short(e.region || "–")];
      return isStored ? row : [...row, e.state, number(e.mailbox), running(e), Number(e.idle_ms) ? millis(e.idle_ms) : "–", number(e.record)];
    }), isStored ? "Nothing is stored of such entities." : "No such entity is in memory."),
    res.next ? el("p", {}, el("a", { href: "#/entities?" + next }, "Next page")) : null));
  });
}

// ---- shard ----

function shard(main, [type, index]) {
  const body = el("div");
  fill(main, el("h1", {}, "Shard " + short(type + "/" + index)), body);
  const n = Number(index);
  return poll(main, 3000, async () => {
    const [why, held] = await Promise.all([call("Why", { type, index: n, limit: 20 }), call("Entities", { type, index: n, limit: 100 })]);
    return { why, held };
  }, ({ why, held }) => {
    const s = why.shard || {};
    fill(body, box(null, facts([
      ["Owner", s.region ? short(s.region) + " (" + s.addr + ")" : "none"], ["Phase", s.reason || s.phase || "not allocated"], ["Epoch", s.addr ? s.epoch : ""], ["Because", why.cause], ["Since", Number(why.since_unix_ms) ? moment(why.since_unix_ms) : ""],
      ["Goes to", why.next], ["Pinned to", why.pin && short(why.pin.region) + (why.pin.reason ? ": " + why.pin.reason : "")],
    ])), silences(held.silent, "A region"),
    box("Entities in memory", table(null, [["Entity"], ["State", "w"], ["Mailbox", "n"], ["Running"], ["Record", "n"]], held.entities.map((e) => [entityLink(e.type, e.id), e.state, number(e.mailbox), running(e), number(e.record)]), "No entity of this shard is in memory."),
      held.next ? el("p", {}, el("a", { href: "#/entities?type=" + encodeURIComponent(type) }, "There are more")) : null),
    box("What was decided about it", decisionTable(why.decisions), why.unread ? el("p", { class: "bad" }, "What is stored could not be read: " + why.unread) : null));
  });
}

// ---- decisions ----

function decisionTable(list) {
  return table(null, [["Time", "w"], ["Decision", "w"], ["Shard", "w"], ["From → to"], ["Because"], ["By"], ["Weighed"]], list.map((d) => [
    moment(d.at_unix_ms), d.kind, d.type ? shardLink(d.type, d.index) : "–", d.from || d.to ? short(d.from || "–") + " → " + short(d.to || "–") : d.moves ? number(d.moves) + " moves, " + number(d.begun) + " begun" : d.request || "–",
    [d.cause, d.reason ? el("div", { class: "dim" }, d.reason) : null], d.by || d.strategy || "–",
    d.chosen ? [short(d.chosen.region) + ": " + number(d.chosen.total) + " shards", d.others.map((o) => el("div", { class: "dim" }, short(o.region) + ": " + number(o.total) + (o.against ? ", " + o.against : "")))] : "–",
  ]), "Nothing was decided yet.");
}

function decisions(main) {
  const body = el("div");
  fill(main, el("h1", {}, "Decisions of the coordinator"), body);
  return poll(main, 3000, () => call("Why", { limit: 100 }), (res) => {
    fill(body, Number(res.dropped) ? el("p", { class: "warn-text" }, number(res.dropped) + " decisions could not be kept.") : null, res.unread ? el("p", { class: "bad" }, "What is stored could not be read: " + res.unread) : null,
      box(null, decisionTable(res.decisions), res.more ? el("p", { class: "dim" }, "There are older ones: roost shard show") : null));
  });
}

// ---- rollout ----

function rollout(main) {
  const body = el("div");
  fill(main, el("h1", {}, "Rollout"), body);
  return poll(main, 2000, () => call("Rollout"), (res) => {
    const all = res.versions.reduce((n, v) => n + v.shards, 0);
    fill(body, box(null, facts([
      ["Target version", res.target || "none: no region says one"], ["State", res.on ? "a rollout is on: " + number(res.left) + " shards are left" : "all regions run the same"], ["Moves for balance", Number(res.frozen_ms) ? "frozen for " + millis(res.frozen_ms) : "allowed"],
      ["Next target", res.next_target && res.next_target + " in " + millis(res.next_target_ms)], ["Not readable by the target", res.unread ? number(res.unread) + " shards" : ""],
    ])), box("Versions", table(null, [["Version"], ["Regions"], ["Shards", "n"], ["", "w"], ["Moving", "n"]],
      res.versions.map((v) => [(v.version || "no version") + (v.target ? " (target)" : ""), v.regions.map(short).join(", "), number(v.shards), meter(all ? v.shards / all : 0), number(v.moving)]), "No region is registered.")),
    res.cannot_read.length ? box("Not readable", table(null, [["Regions of"], ["do not read what regions of"], ["store of"], ["Forms"]], res.cannot_read.map((c) => [c.reader, c.writer, c.type, c.forms.join(", ")]), "")) : null,
    res.unreadable.length ? box("Unreadable shards", table(null, [["Type"], ["Shards", "n"], ["Forms"], ["Stored by"]], res.unreadable.map((u) => [u.type, number(u.shards.length), u.forms.join(", "), u.by.join(", ")]), "")) : null);
  });
}

// ---- slow ----

const PARTS = [["route_us", "R", "part-r", "route: gateway or sender, network, waiting for a region"], ["mailbox_us", "M", "part-m", "mailbox: waiting for earlier commands"], ["handler_us", "H", "part-h", "handler: the entity's code"], ["journal_us", "J", "part-j", "journal: until it is durable"]];

function slow(main, _, query) {
  const body = el("div");
  const slowest = query.get("by") === "time" ? false : true;
  const key = el("p", { class: "legend" }, PARTS.map(([, letter, cls, text]) => el("span", {}, el("span", { class: "key " + cls, "aria-hidden": "true" }), letter + " " + text)));
  fill(main, el("h1", {}, "The slowest commands of the last minutes"), el("p", { class: "dim" }, "Of every 10 seconds, each gateway and each region keeps its 8 slowest commands. Regions keep what entities send each other, reminders, timers and tells. ", slowest ? el("a", { href: "#/slow?by=time" }, "Order by time") : el("a", { href: "#/slow" }, "Order by duration")), key, body);
  return poll(main, 3000, () => call("Slow", { limit: 200 }), (res) => {
    const list = slowest ? [...res.commands].sort((a, b) => Number(b.total_us) - Number(a.total_us)) : res.commands;
    const top = Math.max(1, ...list.map((c) => Number(c.total_us)));
    fill(body, silences(res.silent, "A gateway"), silences(res.silent_regions, "A region"), box(null, table(null, [["Arrived", "w"], ["Total", "n"], ["Where the time went", "w"], ["Entity"], ["Command"], ["Tries", "n"], ["Region"], ["From"], ["Trace"]],
      list.slice(0, 100).map((c) => [moment(c.at_unix_ms), micros(c.total_us), bar(c, top), entityLink(c.type, c.id), [short(c.command), c.code ? el("div", { class: "bad" }, "✕ " + c.code) : null], number(c.attempts), short(c.region || "–"), short([c.origin || "client", c.from].filter(Boolean).join(" ")), c.trace ? el("span", { class: "id" }, c.trace) : "–"]), "No command has ended in the last minutes.")));
  });
}

function bar(c, top) {
  const total = Math.max(1, Number(c.total_us));
  const e = el("div", { class: "bar", role: "img", "aria-label": PARTS.map(([f, , , text]) => text.split(":")[0] + " " + micros(c[f])).join(", ") });
  e.title = e.getAttribute("aria-label");
  e.style.width = Math.max(30, (260 * total) / top).toFixed(0) + "px";
  e.style.minWidth = "0";
  for (const [f, letter, cls] of PARTS) {
    const part = Number(c[f]) / total;
    if (part <= 0.004) continue;
    const s = el("span", { class: cls }, part * ((260 * total) / top) > 12 ? letter : "");
    s.style.width = (100 * part).toFixed(1) + "%";
    e.append(s);
  }
  return e;
}

export const pages = { members, hot, entities, shard, decisions, rollout, slow, entity: entityPage };

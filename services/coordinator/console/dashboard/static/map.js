// The map of shards: a card for each region, with a cell for each of its shards. Cells are drawn on canvases,
// because ten thousand elements would be too many; what a cell is, is said in words when the pointer or the
// keyboard is on it.
import { el, fill, compact, number, short } from "./dom.js";

const MARK_MS = 4000; // how long a shard that has moved is marked
const TYPES = 8; // colours

export const PHASES = {
  s: ["serving", ""],
  a: ["starting", "S"],
  h: ["handing off", "H"],
  u: ["unreadable: no region reads the stored data", "X"],
  "-": ["not allocated", ""],
};

/** The shards as the server sends them, and what has changed lately. */
export class ShardMap {
  constructor() {
    this.names = [];
    this.types = [];
    this.marks = new Map(); // "type/index" → until
    this.moves = []; // the newest first
  }

  take(frame) {
    if (frame.names) this.names = frame.names;
    if (frame.types) {
      this.types = frame.types.map((t) => ({ ...t, phases: t.phases.split("") }));
      return;
    }
    for (const [t, i, owner, phase] of frame.changes || []) {
      const type = this.types[t];
      const from = type.owners[i];
      const ph = String.fromCharCode(phase);
      if (from !== owner || type.phases[i] !== ph) this.change(type, i, from, owner, ph);
      type.owners[i] = owner;
      type.phases[i] = ph;
    }
  }

  change(type, index, from, to, phase) {
    this.marks.set(type.type + "/" + index, performance.now() + MARK_MS);
    const name = (o) => (o < 0 ? "no region" : this.names[o]);
    let text;
    if (from < 0 && to >= 0) text = "placed at " + name(to);
    else if (from !== to) text = name(from) + " → " + name(to);
    else text = name(to) + ": " + PHASES[phase][0];
    this.moves.unshift({ at: Date.now(), type: type.type, index, text });
    this.moves.length = Math.min(this.moves.length, 200);
  }

  counts() {
    const c = { all: 0, allocated: 0, moving: 0, unreadable: 0, ownerless: 0 };
    for (const t of this.types) {
      c.all += t.owners.length;
      for (let i = 0; i < t.owners.length; i++) {
        const p = t.phases[i];
        if (p === "-") continue;
        c.allocated++;
        if (p === "h" || p === "a") c.moving++;
        if (p === "u") c.unreadable++;
        if (t.owners[i] < 0 && p !== "u") c.ownerless++;
      }
    }
    return c;
  }

  /** The shards by region name, in the order of types and numbers; "" has those without one. */
  byRegion(only) {
    const out = new Map();
    this.types.forEach((t, n) => {
      if (only && t.type !== only) return;
      for (let i = 0; i < t.owners.length; i++) {
        if (t.phases[i] === "-") continue;
        const name = t.owners[i] < 0 ? "" : this.names[t.owners[i]];
        let list = out.get(name);
        if (!list) out.set(name, (list = []));
        list.push({ type: t.type, color: n % TYPES, index: i, phase: t.phases[i] });
      }
    });
    return out;
  }

  marked() {
    const now = performance.now();
    for (const [k, until] of this.marks) if (until < now) this.marks.delete(k);
    return this.marks;
  }
}

/** The state of a member: a glyph, words, and how bad it is. */
export function stateOf(m) {
  const words = [m.status + (m.active ? ", active" : "")];
  if (m.draining) words.push("draining");
  if (m.cordoned) words.push("cordoned");
  if (!m.reachable) return { glyph: "✕", text: [...words, "unreachable"].join(", "), cls: "bad" };
  if (m.status !== "up") return { glyph: "◐", text: words.join(", "), cls: "warn-text" };
  if (m.draining || m.cordoned) return { glyph: "◒", text: words.join(", "), cls: "warn-text" };
  return { glyph: m.active ? "★" : "●", text: words.join(", "), cls: "good" };
}

function colours() {
  const css = getComputedStyle(document.documentElement);
  const of = (name) => css.getPropertyValue(name).trim();
  return { types: Array.from({ length: TYPES }, (_, i) => of("--t" + i)), card: of("--card"), text: of("--text"), mark: of("--mark"), focus: of("--focus"), bad: of("--bad") };
}

/** Draws one cell: serving shards are full; the others have a pattern, and a letter if there is room. */
function cell(ctx, x, y, s, shard, marked, c) {
  const color = c.types[shard.color];
  ctx.fillStyle = color;
  ctx.strokeStyle = color;
  ctx.lineWidth = 1;
  if (shard.phase === "s") {
    ctx.fillRect(x, y, s, s);
  } else {
    ctx.fillStyle = c.card;
    ctx.fillRect(x, y, s, s);
    ctx.strokeStyle = shard.phase === "u" ? c.bad : color;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(x + 0.75, y + 0.75, s - 1.5, s - 1.5);
    ctx.beginPath();
    if (shard.phase === "h" || shard.phase === "u") { ctx.moveTo(x, y + s); ctx.lineTo(x + s, y); }
    if (shard.phase === "u") { ctx.moveTo(x, y); ctx.lineTo(x + s, y + s); }
    if (shard.phase === "a") { ctx.moveTo(x + s / 2, y + 2); ctx.lineTo(x + s / 2, y + s - 2); }
    ctx.stroke();
    if (s >= 12) {
      ctx.fillStyle = c.card;
      ctx.fillRect(x + s / 2 - 4, y + s / 2 - 5, 8, 10);
      ctx.fillStyle = c.text;
      ctx.font = "bold 9px sans-serif";
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      ctx.fillText(PHASES[shard.phase][1], x + s / 2, y + s / 2 + 0.5);
    }
  }
  if (marked) {
    ctx.strokeStyle = c.mark;
    ctx.lineWidth = s > 5 ? 2 : 1.5;
    ctx.strokeRect(x - 0.5, y - 0.5, s + 1, s + 1);
  }
}

function canvas(width, height) {
  const ratio = window.devicePixelRatio || 1;
  const e = el("canvas", {});
  fit(e, width, height, ratio);
  return e;
}

function fit(e, width, height, ratio) {
  e.width = Math.round(width * ratio);
  e.height = Math.round(height * ratio);
  e.style.width = width + "px";
  e.style.height = height + "px";
  const ctx = e.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ctx;
}

/** The legend: one entry per phase, and one per type. */
export function legend(map) {
  const c = colours();
  const sample = (shard, marked) => {
    const e = canvas(16, 16);
    e.setAttribute("aria-hidden", "true");
    cell(e.getContext("2d"), 1.5, 1.5, 13, shard, marked, c);
    return e;
  };
  const out = map.types.slice(0, TYPES).map((t, i) => el("span", {}, sample({ color: i, phase: "s" }), short(t.type)));
  if (map.types.length > TYPES) out.push(el("span", {}, "and " + (map.types.length - TYPES) + " more types, in the same colours"));
  for (const p of ["a", "h", "u"]) out.push(el("span", {}, sample({ color: 0, phase: p }), PHASES[p][0].split(":")[0]));
  out.push(el("span", {}, sample({ color: 0, phase: "s" }, true), "moved just now"));
  return el("div", { class: "legend" }, out);
}

/** The cards of all regions. It keeps the canvases, so that the keyboard stays where it is. */
export class MapView {
  constructor(open) {
    this.open = open;
    this.status = el("p", { class: "map-status", "aria-live": "polite" }, "Point at a shard, or go to a region with the Tab key and to a shard with the arrow keys. Enter opens it.");
    this.grid = el("div", { class: "regions" });
    this.cards = new Map();
  }

  update(map, members, only) {
    const lists = map.byRegion(only);
    const regions = new Map();
    for (const m of members) if (m.roles.includes("region")) regions.set(m.name || m.addr, m);
    const names = [...new Set([...regions.keys(), ...[...lists.keys()].filter((n) => n !== "")])].sort(new Intl.Collator("en", { numeric: true }).compare);
    if (lists.has("")) names.push("");
    const most = Math.max(1, ...names.map((n) => (lists.get(n) || []).length));
    let total = 0;
    for (const l of lists.values()) total += l.length;
    this.size = most > 1024 || total > 4000 ? 5 : most > 500 ? 7 : most > 64 ? 10 : 15;
    this.gap = this.size > 5 ? 2 : 1;
    this.tight = names.length > 12;
    this.colours = colours();
    this.marks = map.marked();
    for (const [name, card] of this.cards) if (!names.includes(name)) { card.root.remove(); this.cards.delete(name); }
    const columns = names.length > 12 ? 154 : names.length > 6 ? 230 : 280;
    this.grid.style.gridTemplateColumns = "repeat(auto-fill, minmax(" + columns + "px, 1fr))";
    names.forEach((name, i) => {
      let card = this.cards.get(name);
      if (!card) this.cards.set(name, (card = this.card(name)));
      if (this.grid.children[i] !== card.root) this.grid.insertBefore(card.root, this.grid.children[i] || null);
      this.paint(card, regions.get(name), lists.get(name) || []);
    });
  }

  card(name) {
    const card = { name, shards: [], at: -1 };
    card.title = el("span", { class: "name" });
    card.count = el("span", { class: "shards" });
    card.facts = el("p", { class: "facts" });
    card.canvas = el("canvas", { tabindex: "0", role: "img" });
    card.root = el("section", { class: "region" }, el("h3", {}, card.title, card.count), card.facts, card.canvas);
    card.root.dataset.region = name;
    const place = (e) => {
      const box = card.canvas.getBoundingClientRect();
      const step = this.size + this.gap;
      const i = Math.floor((e.clientY - box.top) / step) * card.columns + Math.floor((e.clientX - box.left) / step);
      return i >= 0 && i < card.shards.length && e.clientX - box.left < card.columns * step ? i : -1;
    };
    card.canvas.addEventListener("mousemove", (e) => this.say(card, place(e)));
    card.canvas.addEventListener("click", (e) => { const i = place(e); if (i >= 0) this.open(card.shards[i]); });
    card.canvas.addEventListener("focus", () => { card.focused = true; this.step(card, 0); });
    card.canvas.addEventListener("blur", () => { card.focused = false; this.draw(card); });
    card.canvas.addEventListener("keydown", (e) => {
      const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: card.columns, ArrowUp: -card.columns, Home: -1e9, End: 1e9 }[e.key];
      if (by !== undefined) { e.preventDefault(); this.step(card, by); }
      if ((e.key === "Enter" || e.key === " ") && card.at >= 0) { e.preventDefault(); this.open(card.shards[card.at]); }
    });
    return card;
  }

  step(card, by) {
    if (card.shards.length === 0) return;
    card.at = Math.min(card.shards.length - 1, Math.max(0, card.at < 0 ? 0 : card.at + by));
    this.say(card, card.at);
    this.draw(card);
  }

  say(card, i) {
    const s = card.shards[i];
    if (s) fill(this.status, s.type + "/" + s.index + " · " + (card.name ? short(card.name) : "no region") + " · " + PHASES[s.phase][0]);
  }

  paint(card, member, shards) {
    card.shards = shards;
    card.at = Math.min(card.at, shards.length - 1);
    const moving = shards.filter((s) => s.phase === "h" || s.phase === "a").length;
    let cls = "region";
    let state = card.name ? { glyph: "✕", text: "no member", cls: "bad" } : { glyph: "?", text: "these shards have no region now", cls: "bad" };
    if (member) state = stateOf(member);
    if (state.cls !== "good") cls += state.cls === "bad" ? " gone" : " warn";
    card.root.className = cls;
    fill(card.title, el("span", { class: state.cls, "aria-hidden": "true" }, state.glyph + " "), card.name ? short(card.name) : "No region");
    card.title.title = card.name;
    fill(card.count, number(shards.length) + (this.tight ? "" : shards.length === 1 ? " shard" : " shards"));
    card.count.title = shards.length + " shards";
    const parts = state.text === "up" ? [] : [state.text]; // the glyph says as much, and so does the label
    const load = member && member.load;
    if (load) parts.push(compact(load.entities) + (Number(load.entities) === 1 ? " entity" : " entities"), (load.commands >= 10 ? number(load.commands) : load.commands.toFixed(1)) + "/s");
    if (moving) parts.push(moving + " moving");
    fill(card.facts, parts.join(" · "));
    card.facts.title = parts.join(" · ");
    card.canvas.setAttribute("aria-label", (card.name || "No region") + ": " + state.text + ", " + shards.length + " shards, " + moving + " moving. Arrow keys go to a shard.");
    this.draw(card);
  }

  draw(card) {
    const step = this.size + this.gap;
    const width = Math.max(120, card.root.clientWidth ? card.root.clientWidth - 20 : 150);
    card.columns = Math.max(1, Math.floor(width / step));
    const rows = Math.max(1, Math.ceil(card.shards.length / card.columns));
    const ctx = fit(card.canvas, card.columns * step, rows * step, window.devicePixelRatio || 1);
    ctx.clearRect(0, 0, card.columns * step, rows * step);
    card.shards.forEach((s, i) => {
      const x = (i % card.columns) * step + 1;
      const y = Math.floor(i / card.columns) * step + 1;
      cell(ctx, x, y, this.size, s, this.marks.has(s.type + "/" + s.index), this.colours);
      if (card.focused && i === card.at) {
        ctx.strokeStyle = this.colours.focus;
        ctx.lineWidth = 2;
        ctx.strokeRect(x - 1, y - 1, this.size + 2, this.size + 2);
      }
    });
  }
}

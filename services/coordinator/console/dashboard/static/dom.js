// Everything is put into the page as text or by properties. Nothing here makes HTML of strings: names and
// payloads are written by strangers.
import { whole } from "./json.js";

/** Makes an element with properties and children; texts become text nodes. */
export function el(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") e.className = value;
    else if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (name in e && typeof value !== "string") e[name] = value;
    else e.setAttribute(name, value === true ? "" : value);
  }
  add(e, children);
  return e;
}

function add(e, children) {
  for (const c of children.flat(Infinity)) {
    if (c === undefined || c === null || c === false) continue;
    e.append(c instanceof Node ? c : String(c));
  }
}

/** Replaces what is in an element. */
export function fill(e, ...children) {
  e.replaceChildren();
  add(e, children);
  return e;
}

/** A call of the admin API. Errors have the words of the coordinator. */
export async function call(method, request = {}) {
  const res = await fetch("api/" + method, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request) });
  const text = await res.text();
  let body = {};
  try { body = JSON.parse(text); } catch { /* not from the coordinator */ }
  if (!res.ok) {
    const err = new Error(body.msg || "no answer: HTTP status " + res.status);
    err.code = body.code || "";
    throw err;
  }
  return body;
}

/** A table. columns: [title, class]; rows: arrays of cells. */
export function table(caption, columns, rows, none) {
  if (rows.length === 0) return el("p", { class: "empty" }, none);
  return el("table", {}, caption && el("caption", {}, caption),
    el("thead", {}, el("tr", {}, columns.map(([title, cls]) => el("th", { class: cls, scope: "col" }, title)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, i) => el("td", { class: columns[i][1] }, cell))))));
}

/** A list of facts, without those that are empty. */
export function facts(list) {
  return el("dl", { class: "facts" }, list.filter(([, v]) => v !== undefined && v !== null && v !== "" && v !== false).map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));
}

export function entityLink(type, id) {
  return el("a", { class: "id", href: "#/entity/" + encodeURIComponent(type) + "/" + encodeURIComponent(id) }, short(type + "/" + id));
}

export function shardLink(type, index) {
  return el("a", { href: "#/shard/" + encodeURIComponent(type) + "/" + index }, type + "/" + index);
}

/** A name without its middle if it is long, and with what cannot be seen made visible. So are all characters outside of
 * ASCII if it is not in normal form C: names are bytes, and another one looks the same. */
export function short(name) {
  const hidden = String(name) === String(name).normalize("NFC") ? /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]/g : /[^\u0020-\u007e]/g;
  const shown = String(name).replace(hidden, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
  const runes = Array.from(shown);
  return runes.length > 72 ? runes.slice(0, 50).join("") + "…" + runes.slice(-20).join("") : shown;
}

export const number = whole;

/** A number of which only the order matters, where there is little room. */
export function compact(n) {
  n = Number(n || 0);
  if (n >= 1e6) return (n / 1e6).toFixed(n >= 1e7 ? 1 : 2) + " M";
  return n >= 1e4 ? (n / 1e3).toFixed(0) + " k" : number(n);
}

export function rate(n) {
  n = Number(n || 0);
  return n >= 100 ? number(n) : n.toFixed(1);
}

export function size(n) {
  n = Number(n || 0);
  if (n >= 2 ** 30) return (n / 2 ** 30).toFixed(1) + " GiB";
  if (n >= 2 ** 20) return (n / 2 ** 20).toFixed(1) + " MiB";
  if (n >= 2 ** 10) return (n / 2 ** 10).toFixed(1) + " KiB";
  return n + " B";
}

export function micros(us) {
  us = Number(us || 0);
  if (us === 0) return "–";
  if (us >= 1e6) return (us / 1e6).toFixed(2) + " s";
  return (us / 1e3).toFixed(us >= 1e5 ? 0 : us >= 1e4 ? 1 : 2) + " ms";
}

export function millis(ms) {
  ms = Number(ms || 0);
  if (ms >= 3.6e6) return Math.floor(ms / 3.6e6) + " h " + Math.floor((ms % 3.6e6) / 6e4) + " min";
  if (ms >= 6e4) return Math.floor(ms / 6e4) + " min " + Math.floor((ms % 6e4) / 1e3) + " s";
  if (ms >= 1e3) return (ms / 1e3).toFixed(1) + " s";
  return ms + " ms";
}

export const percent = (part) => (100 * Number(part || 0)).toFixed(1) + " %";

export function clock(ms) {
  return new Date(Number(ms)).toTimeString().slice(0, 8);
}

export function moment(ms) {
  const d = new Date(Number(ms));
  return el("time", { datetime: d.toISOString(), title: d.toISOString() }, (d.toDateString() === new Date().toDateString() ? "" : d.toISOString().slice(0, 10) + " ") + clock(ms));
}

/** What has not answered, as a list. */
export function silences(list, what) {
  if (!list || list.length === 0) return null;
  return el("ul", { class: "attention" }, list.map((s) => el("li", {}, el("b", {}, "? " + (s.region ? short(s.region) : what)), s.reason)));
}

/** A line of numbers, without axes. */
export function sparkline(values) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 120 30");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  if (values.length < 2) return svg;
  const top = Math.max(...values, 1e-9);
  const points = values.map((v, i) => ((i * 120) / (values.length - 1)).toFixed(1) + "," + (29 - (26 * v) / top).toFixed(1));
  const line = document.createElementNS(ns, "polyline");
  line.setAttribute("points", points.join(" "));
  line.setAttribute("fill", "none");
  line.setAttribute("stroke", "currentColor");
  line.setAttribute("stroke-width", "1.5");
  line.setAttribute("vector-effect", "non-scaling-stroke");
  svg.append(line);
  svg.style.color = "var(--accent)";
  return svg;
}

/** Calls ask and show again and again until the page is left. Nothing is asked while nobody looks. */
export function poll(main, every, ask, show) {
  let stopped = false;
  let timer = 0;
  const trouble = el("p", { class: "bad", role: "alert" });
  async function round() {
    if (!document.hidden) {
      try {
        const answer = await ask();
        if (stopped) return;
        trouble.remove();
        show(answer);
      } catch (err) {
        if (stopped) return;
        trouble.textContent = err.message;
        main.prepend(trouble);
      }
    }
    if (!stopped && every) timer = setTimeout(round, every);
  }
  round();
  return { stop() { stopped = true; clearTimeout(timer); }, again() { clearTimeout(timer); round(); } };
}

export function running(e) {
  if (!e.running) return "–";
  return [short(e.running) + " for " + millis(e.running_ms), e.waits_for_type ? [", waits for ", entityLink(e.waits_for_type, e.waits_for_id)] : ""];
}

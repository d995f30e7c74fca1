// The page of one entity: where it is, what is in memory, what is stored, and a form to try commands.
import { el, fill, call, table, facts, entityLink, shardLink, short, number, size, millis, moment, silences, poll, running } from "./dom.js";
import { indentJSON, utf8 } from "./json.js";
import { stateOf } from "./map.js";

const box = (title, ...content) => el("section", { class: "card scroll" }, title && el("h2", {}, title), content);

export function entityPage(main, [type, id], _, cluster) {
  const want = { records: 20, payloads: false, state: false };
  const body = el("div");
  const tools = el("div");
  let form = null; // is made once, so that what is typed stays
  fill(main, el("h1", { class: "id" }, short(type + "/" + id)), body, tools);
  const asked = poll(main, 2000, () => call("Entity", { type, id, ...want }), (res) => {
    const options = (name, text) => el("label", { class: "check" }, el("input", { type: "checkbox", checked: want[name], onchange: (e) => { want[name] = e.target.checked; asked.again(); } }), text);
    fill(body, silences(res.silent.filter((s) => s.region || res.where.shard.addr), "Missing"), res.damaged.length ? el("ul", { class: "attention" }, res.damaged.map((d) => el("li", { class: "bad-one" }, el("b", {}, "✕ Damaged"), d))) : null,
      el("div", { class: "cols" }, placeBox(res, cluster), memoryBox(res), standingBox(res)), stateBox(res),
      box("Stored", storedFacts(res), res.may_show_payloads ? el("form", { class: "filter" }, options("payloads", "show payloads"), options("state", "show the state")) : el("p", { class: "dim" }, "Payloads and state are hidden: coordinator.show_payloads is not set."), recordTable(res, want, asked)));
    if (!form) fill(tools, whyBox(type, id), (form = box("Try a command", res.may_try_commands ? tryForm(type, id, () => asked.again()) : el("p", { class: "dim" }, "Commands cannot be tried here: coordinator.try_commands is not set."))));
  });
  return { stop: asked.stop };
}

/** Why a command for the entity waits or fails now: roost entity explain, on demand, because it asks many processes. */
function whyBox(type, id) {
  const out = el("div", { role: "status" });
  const button = el("button", { type: "button" }, "Explain");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const res = await call("Explain", { type, id });
      fill(out, res.findings.map((f, i) => el("p", { class: f.blocks ? "bad" : i === 0 ? "good" : "" }, (f.blocks ? "✕ " : i === 0 ? "✓ " : "· ") + f.text + (Number(f.since_ms) ? " (for " + millis(f.since_ms) + ")" : ""), f.next ? el("div", { class: "dim" }, f.next) : null)),
        table("Asked, within " + (Number(res.took_us) / 1000).toFixed(0) + " ms, by " + res.by, [["Process"], ["Answer", "w"], ["After", "n"], ["What it says"]],
          res.parties.map((p) => [p.role + " " + short(p.name), p.result === "answered" ? "✓ answered" : el("span", { class: "bad" }, "✕ " + p.result + (p.error ? ": " + p.error : "")), (Number(p.took_us) / 1000).toFixed(1) + " ms", p.facts.map((f) => el("div", {}, f))]), "Nobody was asked."));
    } catch (err) {
      fill(out, el("p", { class: "bad" }, "✕ " + err.message));
    }
    button.disabled = false;
  });
  return box("Why does a command wait or fail?", el("p", {}, button, " ", el("span", { class: "dim" }, "Asks all processes on the way of a command at once.")), out);
}

function placeBox(res, cluster) {
  const s = res.where.shard;
  const member = cluster.members && cluster.members.members.find((m) => m.addr === s.addr);
  const state = member && stateOf(member);
  return box("Where it is", facts([
    ["Shard", [shardLink(s.type, s.index), res.where.shard_key ? ", key “" + short(res.where.shard_key) + "”" : ""]],
    ["Owner", s.addr ? [short(s.region) + " (" + s.addr + ")", state ? el("span", { class: state.cls }, " " + state.glyph + " " + state.text) : ""] : "none: its first command will place the shard"],
    ["Phase", s.reason || s.phase], ["Epoch", s.addr ? s.epoch : ""], ["Because", s.cause],
    ["Quarantined", res.quarantined ? el("span", { class: "bad" }, "✕ " + res.quarantined) : ""],
  ]));
}

function memoryBox(res) {
  const m = res.memory;
  if (!m) return box("In memory", el("p", { class: "dim" }, res.silent.length ? "Not known, or not in memory." : res.quarantined ? "It is quarantined, and does not run: roost entity quarantine --undo." : "It is not in memory. Its next command loads it."));
  return box("In memory", facts([
    ["State", m.state], ["Mailbox", number(m.mailbox) + (Number(m.oldest_ms) ? " commands, the oldest for " + millis(m.oldest_ms) : " commands")], ["Running", m.running ? running(m) : "nothing"],
    ["Idle", Number(m.idle_ms) ? millis(m.idle_ms) : ""], ["Newest record", number(m.record) + (BigInt(m.staged || 0) > BigInt(m.record || 0) ? ", up to " + number(m.staged) + " are being written" : "")], ["Size", Number(m.bytes) ? size(m.bytes) : ""],
  ]), res.timers.length ? [el("h2", {}, "Timers"), table(null, [["Name"], ["Command"], ["Due in", "n"], ["Every", "n"]], res.timers.map((t) => [short(t.name), short(t.command), millis(t.due_ms), Number(t.period_ms) ? millis(t.period_ms) : "–"]), ""),
    res.unlisted_timers ? el("p", { class: "dim" }, "and " + res.unlisted_timers + " more") : null] : null);
}

function stateBox(res) {
  if (!res.state) return null;
  const s = res.state;
  const text = !s.state && Number(s.bytes) ? "It is too long to be shown." : decode(s.state, s.json, 2);
  return box("State after record " + number(s.record), el("p", { class: "dim" }, size(s.bytes) + ", from a copy that the region has made"), el("pre", {}, text));
}

function standingBox(res) {
  const failure = (f) => f && el("div", { class: "bad" }, "✕ failed " + number(f.times) + " times: " + f.code + ": " + f.message);
  return [
    box("Reminders", res.reminders.length ? res.reminders.map((r) => el("p", {}, short(r.name) + " runs " + short(r.command || "–") + " at ", moment(r.due_unix_ms), Number(r.period_ms) ? ", then every " + millis(r.period_ms) : "", failure(r.failure))) : el("p", { class: "dim" }, "none"), res.more_reminders ? el("p", { class: "dim" }, "and more: roost entity reminders") : null),
    box("Sends that have not ended", res.sends.length ? res.sends.map((s) => el("p", {}, short(s.command) + " to ", entityLink(s.target_type, s.target_id), ", " + s.state + " since ", moment(s.sent_unix_ms), failure(s.failure))) : el("p", { class: "dim" }, "none"), res.more_sends ? el("p", { class: "dim" }, "and more: roost entity sends") : null),
    Number(res.remembered_unix_ms) ? box("Remembered", el("p", {}, "It comes to life whenever its shard starts.")) : null,
  ];
}

function storedFacts(res) {
  const s = res.stored;
  if (res.volatile) return el("p", { class: "dim" }, "Nothing is stored: its type is volatile.");
  if (!s) return null;
  if (Number(s.last) === 0) return el("p", { class: "dim" }, "Nothing is stored of it.");
  return facts([
    ["Newest record", number(s.last)], ["Snapshot", Number(s.snapshot) ? "after record " + number(s.snapshot) + ", " + size(s.snapshot_bytes) : "none"],
    ["Deleted", Number(s.life) ? "by record " + number(s.life) : ""], ["Trimmed", Number(s.trimmed) ? "events up to record " + number(s.trimmed) : ""],
  ]);
}

function recordTable(res, want, asked) {
  const s = res.stored;
  if (!s || s.records.length === 0) return null;
  return [table(null, [["Record", "n"], ["Stored", "w"], ["Size", "n"], ["Epoch", "w"], ["What"], ["Command id"]], s.records.map((r) => [
    number(r.number), Number(r.at_unix_ms) ? moment(r.at_unix_ms) : "–", size(r.bytes), r.epoch, what(r), el("span", { class: "id dim" }, short(r.command_id || "–")),
  ]), ""), s.more ? el("p", {}, el("button", { type: "button", onclick: () => { want.records = Math.min(1000, want.records * 4); asked.again(); } }, "Show more")) : null];
}

function what(r) {
  if (r.damaged) return el("span", { class: "bad" }, "✕ damaged: " + r.damaged);
  const parts = r.events.map((e) => el("div", {}, short(e.name), el("span", { class: "dim" }, " v" + e.version + ", " + size(e.bytes)), e.payload ? el("pre", {}, decode(e.payload, e.json, 0)) : null));
  if (r.wakes) parts.push(el("div", {}, number(r.wakes) + " reminders set or removed"));
  for (const s of r.sends) parts.push(el("div", {}, "send " + short(s.command) + " to ", entityLink(s.target_type, s.target_id)));
  if (r.delete) parts.push(el("div", { class: "bad" }, "deleted"));
  if (r.operator) parts.push(el("div", { class: "dim" }, "by an operator"));
  return parts.length ? parts : el("span", { class: "dim" }, "nothing besides its command id");
}

function isJSON(text) {
  try { JSON.parse(text); return true; } catch { return false; }
}

/** Bytes as text: JSON with indents, or what is readable of them. */
function decode(base64, json, indent) {
  const bytes = Uint8Array.from(atob(base64 || ""), (c) => c.charCodeAt(0));
  const text = utf8(bytes);
  if (json && text !== null && isJSON(text)) return indentJSON(text, indent);
  return text === null || /[\u0000-\u0008]/.test(text) ? Array.from(bytes.slice(0, 512), (b) => b.toString(16).padStart(2, "0")).join(" ") + (bytes.length > 512 ? " …" : "") : text;
}

function key() {
  return "dashboard-" + Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
}

function encode(text) {
  return btoa(Array.from(new TextEncoder().encode(text), (b) => String.fromCharCode(b)).join(""));
}

function tryForm(type, id, done) {
  const command = el("select", { name: "command" });
  const input = el("textarea", { name: "input", rows: "4", spellcheck: "false" });
  input.value = "{}";
  const out = el("div", { role: "status" });
  const button = el("button", { class: "main" }, "Send");
  call("Shards", { type }).then((res) => {
    const commands = (res.types[0] || { commands: [] }).commands;
    fill(command, commands.map((c) => el("option", { value: c.name }, c.name + (c.read_only ? " (read-only)" : ""))));
  }).catch((err) => fill(out, el("p", { class: "bad" }, err.message)));
  return el("form", { onsubmit: async (e) => {
    e.preventDefault();
    try { JSON.parse(input.value || "null"); } catch (err) { fill(out, el("p", { class: "bad" }, "✕ The input is no JSON: " + err.message)); return; }
    if (!input.value.isWellFormed()) { fill(out, el("p", { class: "bad" }, "✕ The input is not Unicode: it has half of a surrogate pair")); return; }
    button.disabled = true;
    const began = performance.now();
    try {
      const res = await call("Command", { type, id, command: command.value, payload: encode(input.value), idempotency_key: key(), reason: "tried in the dashboard", by: "dashboard", timeout_ms: 5000 });
      const good = res.outcome === "executed" && !res.code;
      fill(out, el("p", { class: good ? "good" : "bad" }, (good ? "✓ executed" : "✕ " + res.outcome + (res.code ? ", " + res.code : "")) + " after " + Math.round(performance.now() - began) + " ms" + (res.region ? ", by " + short(res.region) : "")),
        res.message ? el("p", {}, res.message) : null, res.payload ? el("pre", {}, decode(res.payload, true, 2)) : null);
    } catch (err) {
      fill(out, el("p", { class: "bad" }, "✕ " + err.message));
    }
    button.disabled = false;
    done();
  } }, el("div", { class: "filter" }, el("label", {}, "Command ", command)), el("label", {}, "Input, as JSON", input), el("p", {}, button, " ", el("span", { class: "dim" }, "It is sent once, with a key of its own. Commands that are not read-only change the entity.")), out);
}

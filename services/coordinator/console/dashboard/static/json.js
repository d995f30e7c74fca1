// JSON as text. JSON.parse would read numbers as doubles: 9007199254740993 would be shown as …992, 1.0 as 1 and 1e400 as
// null; and of a key that is there twice only the last one would be left.

/** Valid JSON with indents, and otherwise as it is written. */
export function indentJSON(text, indent) {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs) || [];
  let out = "", depth = 0;
  const line = () => (indent ? "\n" + " ".repeat(indent * depth) : "");
  tokens.forEach((token, i) => {
    const opened = tokens[i - 1] === "{" || tokens[i - 1] === "[";
    const closes = token === "}" || token === "]";
    if (closes) depth--;
    if (opened !== closes) out += line(); // nothing between the brackets of what is empty
    out += token;
    if (token === "{" || token === "[") depth++;
    else if (token === ",") out += line();
    else if (token === ":" && indent) out += " ";
  });
  return out;
}

/** The text of UTF-8; null if the bytes are none. */
export function utf8(bytes) {
  try { return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes); } catch { return null; }
}

/** A whole number with separators. The API sends 64 bits as text, which has more digits than a double. */
export function whole(n) {
  return typeof n === "string" && /^-?\d+$/.test(n) ? BigInt(n).toLocaleString("en-US") : Number(n || 0).toLocaleString("en-US", { maximumFractionDigits: 0 });
}

// The output of programs as runs of text with a style. Colours and emphasis
// are kept; everything else that a terminal would obey is dropped.

export interface Run {
  text: string;
  fg: string; // "" or a colour's name: "red", "bright-red", ...
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
// CSI sequences, OSC and other strings, and two-byte escapes.
// eslint-disable-next-line no-control-regex
const escape = /\x1b(?:\[([0-9;:?<=>]*)[ -/]*([@-~])|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)|[ -/]*[0-~]?)/g;
// Controls, and the marks with which text can be made to read in another order than it is.
// eslint-disable-next-line no-control-regex
const unsafe = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Text without controls; what would reorder it is shown as a replacement character. */
export function plain(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(unsafe, (c) => (c > "\u2000" ? "\ufffd" : ""));
}

/** Splits text into runs. */
export function parseAnsi(text: string): Run[] {
  const runs: Run[] = [];
  let style: Omit<Run, "text"> = reset();
  let at = 0;
  const source = overwrite(text);
  const push = (s: string) => {
    const clean = plain(s);
    if (!clean) return;
    const last = runs.at(-1);
    if (last && last.fg === style.fg && last.bold === style.bold && last.dim === style.dim && last.italic === style.italic && last.underline === style.underline) last.text += clean;
    else runs.push({ text: clean, ...style });
  };
  for (const m of source.matchAll(escape)) {
    push(source.slice(at, m.index));
    at = m.index + m[0].length;
    if (m[2] === "m") style = apply(style, m[1] ?? "");
  }
  push(source.slice(at));
  return runs;
}

/** A carriage return takes a terminal back to the start of the line: only what came last is seen. */
function overwrite(text: string): string {
  if (!text.includes("\r")) return text;
  return text
    .replace(/\r+\n/g, "\n")
    .split("\n")
    .map((l) => (l.includes("\r") ? (l.split("\r").findLast((p) => p !== "") ?? "") : l))
    .join("\n");
}

function reset(): Omit<Run, "text"> {
  return { fg: "", bold: false, dim: false, italic: false, underline: false };
}

function apply(style: Omit<Run, "text">, params: string): Omit<Run, "text"> {
  const s = { ...style };
  const codes = params === "" ? [0] : params.split(/[;:]/).map(Number);
  for (let i = 0; i < codes.length; i++) {
    const c = codes[i]!;
    if (c === 0) Object.assign(s, reset());
    else if (c === 1) s.bold = true;
    else if (c === 2) s.dim = true;
    else if (c === 3) s.italic = true;
    else if (c === 4) s.underline = true;
    else if (c === 22) s.bold = s.dim = false;
    else if (c === 23) s.italic = false;
    else if (c === 24) s.underline = false;
    else if (c >= 30 && c <= 37) s.fg = names[c - 30]!;
    else if (c >= 90 && c <= 97) s.fg = "bright-" + names[c - 90]!;
    else if (c === 39) s.fg = "";
    else if (c === 38 || c === 48) {
      // 256 colours and true colour: the sixteen that have names are kept.
      if (codes[i + 1] === 5) {
        const n = codes[i + 2] ?? -1;
        if (c === 38) s.fg = n >= 0 && n < 8 ? names[n]! : n >= 8 && n < 16 ? "bright-" + names[n - 8]! : "";
        i += 2;
      } else if (codes[i + 1] === 2) i += 4;
    }
  }
  return s;
}

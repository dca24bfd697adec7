// Line diffs: made of two texts, or read from a unified diff.

export interface DiffLine {
  kind: "same" | "add" | "del";
  text: string;
  old: number; // line number before, 0 for an added line
  new: number; // line number after, 0 for a deleted line
}

export interface Hunk {
  header: string;
  lines: DiffLine[];
}

export interface FileDiff {
  path: string;
  from: string; // its path before, where that differs
  state: "added" | "deleted" | "modified" | "renamed";
  binary: boolean;
  hunks: Hunk[];
  added: number; // lines; -1 where they were not counted
  deleted: number;
  cut?: boolean; // the hunks are not all of it
  large?: boolean; // it was too large to be compared
}

const context = 3;
const maxEdits = 2000; // beyond, the middle is shown as replaced

/** The diff of two texts. */
export function diffTexts(path: string, before: string | null, after: string | null): FileDiff {
  const a = split(before ?? "");
  const b = split(after ?? "");
  const lines = diffLines(a, b);
  const state = before === null ? "added" : after === null ? "deleted" : "modified";
  return finish({ path, from: "", state, binary: false, hunks: hunksOf(lines), added: 0, deleted: 0 });
}

function split(text: string): string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function finish(d: FileDiff): FileDiff {
  for (const h of d.hunks)
    for (const l of h.lines) {
      if (l.kind === "add") d.added++;
      else if (l.kind === "del") d.deleted++;
    }
  return d;
}

function diffLines(a: string[], b: string[]): DiffLine[] {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const out: DiffLine[] = [];
  let i = 1;
  let j = 1;
  const same = (text: string) => out.push({ kind: "same", text, old: i++, new: j++ });
  const del = (text: string) => out.push({ kind: "del", text, old: i++, new: 0 });
  const add = (text: string) => out.push({ kind: "add", text, old: 0, new: j++ });
  a.slice(0, head).forEach(same);
  for (const [op, text] of script(a.slice(head, a.length - tail), b.slice(head, b.length - tail))) {
    if (op === "same") same(text);
    else if (op === "del") del(text);
    else add(text);
  }
  a.slice(a.length - tail).forEach(same);
  return out;
}

type Op = [DiffLine["kind"], string];

/** Myers' shortest edit script, up to a bound on its length. */
function script(a: string[], b: string[]): Op[] {
  const n = a.length;
  const m = b.length;
  const replaced = (): Op[] => [...a.map((t): Op => ["del", t]), ...b.map((t): Op => ["add", t])];
  if (n === 0 || m === 0) return replaced();
  const bound = Math.min(n + m, maxEdits);
  const v = new Int32Array(2 * bound + 2);
  const trace: Int32Array[] = [];
  for (let d = 0; d <= bound; d++) {
    trace.push(v.slice(bound - d, bound + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && v[bound + k - 1]! < v[bound + k + 1]!);
      let x = down ? v[bound + k + 1]! : v[bound + k - 1]! + 1;
      while (x < n && x - k < m && a[x] === b[x - k]) x++;
      v[bound + k] = x;
      if (x >= n && x - k >= m) return walk(trace, a, b);
    }
  }
  return replaced();
}

function walk(trace: Int32Array[], a: string[], b: string[]): Op[] {
  const ops: Op[] = [];
  let x = a.length;
  let y = b.length;
  for (let d = trace.length - 1; d >= 0; d--) {
    const v = trace[d]!; // holds diagonals -d to d+1, from before round d
    const k = x - y;
    const at = (kk: number) => v[kk + d] ?? -1;
    const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const fromK = down ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : at(fromK);
    const fromY = d === 0 ? 0 : fromX - fromK;
    while (x > fromX && y > fromY) {
      if (d > 0 && x === (down ? fromX : fromX + 1) && y === (down ? fromY + 1 : fromY)) break;
      ops.push(["same", a[--x]!]);
      y--;
    }
    if (d > 0) {
      if (down) ops.push(["add", b[--y]!]);
      else ops.push(["del", a[--x]!]);
    }
  }
  return ops.reverse();
}

function hunksOf(lines: DiffLine[]): Hunk[] {
  const hunks: Hunk[] = [];
  let start = -1;
  let end = -1;
  const close = () => {
    if (start >= 0) hunks.push(hunk(lines.slice(start, end)));
  };
  lines.forEach((l, i) => {
    if (l.kind === "same") return;
    if (start >= 0 && i - context <= end) end = Math.min(lines.length, i + context + 1);
    else {
      close();
      start = Math.max(0, i - context);
      end = Math.min(lines.length, i + context + 1);
    }
  });
  close();
  return hunks;
}

function hunk(lines: DiffLine[]): Hunk {
  const olds = lines.filter((l) => l.old > 0);
  const news = lines.filter((l) => l.new > 0);
  return { header: `@@ -${olds[0]?.old ?? 0},${olds.length} +${news[0]?.new ?? 0},${news.length} @@`, lines };
}

/** Reads a unified diff, with git's headers or without. What it can't read it leaves out. */
export function parseUnified(text: string): FileDiff[] {
  const files: FileDiff[] = [];
  let file: FileDiff | null = null;
  let hunk: Hunk | null = null;
  let o = 0;
  let n = 0;
  let left = 0; // old lines that the hunk still has
  let right = 0;
  const begin = (path: string): FileDiff => {
    const f: FileDiff = { path, from: "", state: "modified", binary: false, hunks: [], added: 0, deleted: 0 };
    files.push(f);
    hunk = null;
    return f;
  };
  for (const line of split(text)) {
    if (hunk && (left > 0 || right > 0 || line.startsWith("\\"))) {
      const mark = line[0] ?? " ";
      const body = line.slice(1);
      if (mark === "+") {
        right--;
        (hunk as Hunk).lines.push({ kind: "add", text: body, old: 0, new: n++ });
        continue;
      }
      if (mark === "-") {
        left--;
        (hunk as Hunk).lines.push({ kind: "del", text: body, old: o++, new: 0 });
        continue;
      }
      if (mark === " ") {
        left--;
        right--;
        (hunk as Hunk).lines.push({ kind: "same", text: body, old: o++, new: n++ });
        continue;
      }
      if (mark === "\\") continue;
    }
    const at = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (at) {
      file ??= begin("");
      o = Number(at[1]);
      n = Number(at[3]);
      left = at[2] === undefined ? 1 : Number(at[2]);
      right = at[4] === undefined ? 1 : Number(at[4]);
      hunk = { header: line, lines: [] };
      file.hunks.push(hunk);
    } else {
      file = header(line, file, begin);
    }
  }
  return files.map(finish).filter((f) => f.path !== "" || f.hunks.length > 0);
}

function header(line: string, file: FileDiff | null, begin: (path: string) => FileDiff): FileDiff | null {
  const git = /^diff --git (?:"?a\/)(.*?)"? "?b\/(.*?)"?$/.exec(line);
  if (git) return begin(git[2] ?? "");
  if (line.startsWith("--- ")) {
    const path = name(line.slice(4));
    if (!file || file.hunks.length > 0) file = begin(path);
    if (path === "/dev/null") file.state = "added";
    else if (!file.path) file.path = path;
    return file;
  }
  if (!file) return file;
  if (line.startsWith("+++ ")) {
    const path = name(line.slice(4));
    if (path === "/dev/null") file.state = "deleted";
    else file.path = path;
  } else if (line.startsWith("new file")) file.state = "added";
  else if (line.startsWith("deleted file")) file.state = "deleted";
  else if (line.startsWith("rename from ")) [file.from, file.state] = [line.slice(12), "renamed"];
  else if (line.startsWith("Binary files") || line.startsWith("GIT binary patch")) file.binary = true;
  return file;
}

function name(s: string): string {
  const path = s.replace(/\t.*$/, "").replace(/^"(.*)"$/, "$1");
  return path === "/dev/null" ? path : path.replace(/^[ab]\//, "");
}

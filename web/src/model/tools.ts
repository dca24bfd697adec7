// What a tool call is about, in a line, and what it changed, as diffs. The
// input is what a model wrote: nothing in it is taken for granted.
import type { IconName } from "../ui/icons";
import { diffTexts, parseUnified, type FileDiff } from "./diff";
import { blocksText, type ToolItem } from "./history";

export interface ToolLine {
  icon: IconName;
  verb: string;
  object: string; // shown as code
}

type Input = Record<string, unknown>;

const asInput = (v: unknown): Input => (typeof v === "object" && v !== null && !Array.isArray(v) ? (v as Input) : {});
const str = (v: unknown): string => (typeof v === "string" ? v : typeof v === "number" || typeof v === "boolean" ? String(v) : "");
const list = (v: unknown): string => (Array.isArray(v) ? v.map(str).filter(Boolean).join(", ") : str(v));
const oneLine = (s: string, n = 160): string => {
  const line = s.trim().split("\n")[0] ?? "";
  return line.length > n ? line.slice(0, n) + "\u2026" : line;
};
const path = (i: Input): string => str(i.path).replace(/^\/workspace\//, "");

const lines: Record<string, (i: Input) => ToolLine> = {
  shell: (i) => ({ icon: "terminal", verb: i.background ? "Run in the background" : "Run", object: oneLine(str(i.command)) }),
  shell_output: (i) => ({ icon: "terminal", verb: "Look at the output of", object: str(i.id ?? i.handle) }),
  shell_input: (i) => ({ icon: "terminal", verb: "Type", object: oneLine(str(i.text ?? i.input), 60) }),
  shell_stop: (i) => ({ icon: "terminal", verb: "Stop", object: str(i.id ?? i.handle) }),
  write_file: (i) => ({ icon: "file", verb: "Write", object: path(i) }),
  edit_file: (i) => ({ icon: "edit", verb: "Edit", object: path(i) }),
  apply_patch: (i) => ({ icon: "edit", verb: "Patch", object: patchDiffs(str(i.patch)).map((d) => d.path).join(", ") }),
  read_file: (i) => ({ icon: "file", verb: "Read", object: path(i) + (i.start_line ? `:${str(i.start_line)}${i.end_line ? `\u2013${str(i.end_line)}` : ""}` : "") }),
  read_output: (i) => ({ icon: "file", verb: "Read the whole output", object: str(i.handle) }),
  delete_file: (i) => ({ icon: "trash", verb: "Delete", object: path(i) }),
  move_file: (i) => ({ icon: "file", verb: "Move", object: `${str(i.from ?? i.path)} \u2192 ${str(i.to)}` }),
  list_files: (i) => ({ icon: "folder", verb: "List", object: path(i) || "." }),
  search_files: (i) => ({ icon: "search", verb: "Search", object: oneLine(str(i.pattern ?? i.query), 80) }),
  run_tests: (i) => ({ icon: "check", verb: "Run the tests", object: list(i.args) }),
  install_package: (i) => ({ icon: "download", verb: "Install", object: list(i.packages) || str(i.manager) }),
  code: (i) => ({ icon: "book", verb: `Run ${str(i.language) || "code"}`, object: oneLine(str(i.code), 80) }),
  gui: (i) => ({ icon: "screen", verb: "Screen", object: guiText(i) }),
  preview: (i) => ({ icon: "globe", verb: "Preview", object: oneLine(str(i.url ?? i.command ?? i.port), 80) }),
  finish: () => ({ icon: "flag", verb: "Finish", object: "" }),
  recall: (i) => ({ icon: "brain", verb: "Look up in the past", object: recallText(i) }),
  open_event: (i) => ({ icon: "brain", verb: "Open event", object: str(i.event ?? i.number ?? i.seq) }),
  note: (i) => ({ icon: "edit", verb: "Note", object: str(i.name ?? i.title) || oneLine(str(i.text), 80) }),
};

function recallText(i: Input): string {
  const what = [str(i.words ?? i.query), list(i.exact) && `"${list(i.exact)}"`, str(i.regexp) && `/${str(i.regexp)}/`].filter(Boolean).join(" ");
  const where = [str(i.file), str(i.tool)].filter(Boolean).join(", ");
  return oneLine([what, where && `in ${where}`].filter(Boolean).join(" "), 120);
}

function guiText(i: Input): string {
  const at = i.x !== undefined ? ` ${str(i.x)},${str(i.y)}` : "";
  return `${str(i.action)}${at} ${oneLine(str(i.text ?? i.keys ?? i.url), 60)}`.trim();
}

export function toolLine(t: ToolItem): ToolLine {
  const make = Object.hasOwn(lines, t.name) ? lines[t.name] : undefined;
  if (make) return make(asInput(t.input));
  return { icon: "wrench", verb: t.name, object: oneLine(inputText(t.input), 100) };
}

/** The input of a tool that has no view of its own. */
export function inputText(input: unknown): string {
  if (typeof input === "string") return input;
  try {
    return JSON.stringify(input, null, 2) ?? "";
  } catch {
    return "";
  }
}

/** What a call of a tool does to files, as far as its input says. */
export function toolDiffs(t: ToolItem): FileDiff[] {
  const i = asInput(t.input);
  if (t.name === "edit_file") {
    // The answer says where in the file it was.
    const at = /at line (\d{1,7})\b/.exec(blocksText(t.content).slice(0, 2000));
    return [shifted(diffTexts(path(i), str(i.old), str(i.new)), at ? Number(at[1]) - 1 : 0)];
  }
  if (t.name === "write_file") return [diffTexts(path(i), null, str(i.content))];
  if (t.name === "apply_patch") return patchDiffs(str(i.patch));
  return [];
}

function shifted(d: FileDiff, by: number): FileDiff {
  if (by === 0) return d;
  for (const h of d.hunks)
    for (const l of h.lines) {
      if (l.old > 0) l.old += by;
      if (l.new > 0) l.new += by;
    }
  return d;
}

/** The text of a result without what it tells the model to do with a cut output: the page has a button for that. */
export function resultText(t: ToolItem): string {
  const text = blocksText(t.content) || t.live;
  return t.blob ? text.replace(/\n?\[whole output: [^\]\n]*\]\s*$/, "") : text;
}

/** The code that a call runs, where that is more than its line shows. */
export function toolCode(t: ToolItem): { text: string; language: string } | null {
  const i = asInput(t.input);
  if (t.name === "shell") {
    const command = str(i.command);
    return command.trim().includes("\n") || command.length > 160 ? { text: command, language: "sh" } : null;
  }
  if (t.name === "code") return { text: str(i.code), language: str(i.language) === "bash" ? "sh" : str(i.language) || "python" };
  if (t.name in lines) return null;
  return { text: inputText(t.input), language: "json" };
}

/** Whether a call is shown unfolded unless the person says otherwise. */
export function opensByItself(t: ToolItem): boolean {
  if (t.state !== "ok") return t.name !== "finish" || t.state !== "running";
  if (t.content.some((b) => b.type === "image")) return true;
  return ["shell", "run_tests", "edit_file", "apply_patch", "code"].includes(t.name);
}

export function patchDiffs(patch: string): FileDiff[] {
  return patch.includes("*** Begin Patch") ? envelope(patch) : parseUnified(patch);
}

/** Reads the envelope format: files named by "*** Add File:" and the like, hunks without line numbers. */
function envelope(patch: string): FileDiff[] {
  const out: FileDiff[] = [];
  for (const line of patch.split("\n")) {
    const head = /^\*\*\* (Add|Update|Delete) File: (.*)$/.exec(line);
    if (head) {
      const state = head[1] === "Add" ? "added" : head[1] === "Delete" ? "deleted" : "modified";
      out.push({ path: head[2]!, from: "", state, binary: false, hunks: [], added: 0, deleted: 0 });
      continue;
    }
    const file = out.at(-1);
    if (!file) continue;
    const move = /^\*\*\* Move to: (.*)$/.exec(line);
    if (move) {
      [file.from, file.path, file.state] = [file.path, move[1]!, "renamed"];
      continue;
    }
    if (line.startsWith("***")) continue;
    if (line.startsWith("@@") || file.hunks.length === 0) {
      file.hunks.push({ header: line.startsWith("@@") ? line : "", lines: [] });
      if (line.startsWith("@@")) continue;
    }
    const kind = line[0] === "+" ? "add" : line[0] === "-" ? "del" : "same";
    if (kind === "add") file.added++;
    if (kind === "del") file.deleted++;
    file.hunks.at(-1)!.lines.push({ kind, text: line.slice(1), old: 0, new: 0 });
  }
  return out;
}

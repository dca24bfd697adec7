// What the model has before it, step by step: how full its window was, when
// history was folded, and what stands for it since. All of its text is data.
import type { EventData, FoldReason, ProjectFile, Quote, Summary, WindowUse } from "../api/types";
import { count } from "./format";

/** How the window was filled at a step. */
export interface WindowPoint extends WindowUse {
  step: number;
}

export interface Fold {
  seq: number;
  step: number; // the last one before it
  epoch: number;
  through: number;
  reason: FoldReason;
  before: number; // tokens
  after: number; // tokens
  notes: Summary[]; // what stands for the events up to through, oldest first
  recalled: Quote[];
}

export class Memory {
  points: WindowPoint[] = []; // one a step that says how its window was filled
  folds: Fold[] = [];
  notes: Summary[] = []; // those that no other stands for, oldest first
  made = 0; // notes, in all
  digests = 0; // of them, those without a model
  refused = 0; // answers that were no good
  tokens = 0; // that the notes took
  costMicros = 0;
  instructions = new Map<string, { seq: number; text: string; blob: string }>();
  project: { name: string; files: ProjectFile[] } | null = null;

  requested(step: number, use: WindowUse | undefined): void {
    if (!use || use.head + use.folded + use.tail === 0) return;
    const point = { ...use, step };
    if (this.points.at(-1)?.step === step) this.points[this.points.length - 1] = point;
    else this.points.push(point);
  }

  /** Takes new notes in, and returns them. */
  summarized(d: EventData["memory.summarized"]): Summary[] {
    const made = d.summaries ?? [];
    const u = d.usage;
    if (u) {
      this.tokens += u.input + u.cache_read + u.cache_write + u.output;
      this.costMicros += u.cost_micros;
    }
    if (d.problem) this.refused++;
    for (const s of made) {
      this.made++;
      if (s.by === "digest") this.digests++;
      // A note on notes takes their place.
      this.notes = this.notes.filter((n) => n.level >= s.level || n.from < s.from || n.through > s.through);
      this.notes.push(s);
    }
    this.notes.sort((a, b) => a.from - b.from);
    return made;
  }

  folded(seq: number, step: number, d: EventData["memory.folded"]): Fold {
    const fold: Fold = {
      seq,
      step,
      epoch: d.epoch,
      through: d.through,
      reason: d.reason,
      before: d.before,
      after: d.use ? d.use.head + d.use.folded + d.use.tail : 0,
      notes: this.notes.filter((n) => n.through <= d.through),
      recalled: d.recalled ?? [],
    };
    this.folds.push(fold);
    return fold;
  }

  /** How the window was filled at a step; the newest point up to it. */
  pointAt(step: number | null): WindowPoint | null {
    if (step === null) return this.points.at(-1) ?? null;
    let found: WindowPoint | null = null;
    for (const p of this.points) {
      if (p.step > step) break;
      found = p;
    }
    return found;
  }
}

/** Points taken together so that there are at most so many; of each bunch the fullest stays. */
export function thinned(points: WindowPoint[], most: number): WindowPoint[] {
  const size = Math.ceil(points.length / most);
  if (size <= 1) return points;
  const out: WindowPoint[] = [];
  for (let i = 0; i < points.length; i += size) out.push(points.slice(i, i + size).reduce((a, b) => (total(b) > total(a) ? b : a)));
  return out;
}

export const total = (u: WindowUse): number => u.head + u.folded + u.tail;

export const reasonText: Record<FoldReason, string> = {
  full: "the window had reached its high mark",
  cold: "the provider's cache had expired anyway",
  refused: "the provider found the request too long",
  bytes: "text and images weighed too much",
  model: "another model goes on",
};

export const reasonOf = (r: FoldReason): string => (Object.hasOwn(reasonText, r) ? reasonText[r] : String(r));

export function foldText(f: Fold): string {
  const shrunk = f.before > 0 && f.after > 0 ? `: about ${count(f.before)} tokens became ${count(f.after)}` : "";
  return `History up to event ${f.through} was folded${shrunk}`;
}

export function summariesText(made: Summary[]): string {
  if (made.length === 0) return "The notes of the model were of no use";
  const derived = made.every((s) => s.by === "digest");
  const n = made.length === 1 ? "A note" : `${made.length} notes`;
  return `${n} on what happened ${made.length === 1 ? "was" : "were"} ${derived ? "derived from the events" : "written"}`;
}

/** What a note stands for. */
export function noteTitle(s: Summary): string {
  const what = s.from === s.through ? `Event ${s.from}` : `Events ${s.from} to ${s.through}`;
  return s.level > 0 ? `${what}, from notes of notes` : what;
}

// Folds a job's events into what the page shows: a timeline of items, and the
// plan, files, network and usage as they were after each step.
import type { Block, EventData, FileChange, JobEvent, Limits, PlanStep, ProjectFile, Proof, Status, Failure, Summary } from "../api/types";
import { foldText, Memory, summariesText, type Fold } from "./memory";

interface Base {
  key: string;
  seq: number;
  time: string;
  step: number;
}

export type Item = Base &
  (
    | { kind: "task"; text: string }
    | { kind: "message"; text: string; blob: string; size: number }
    | { kind: "text"; text: string }
    | { kind: "reasoning"; text: string }
    | ToolItem
    | { kind: "system"; tone: Tone; text: string; detail?: string }
    | { kind: "plan"; steps: PlanStep[]; done: number; active: string }
    | { kind: "question"; text: string; until: string; answered: boolean }
    | { kind: "notice"; text: string }
    | { kind: "egress"; host: string; port: number; reason: string; count: number }
    | { kind: "fold"; text: string; fold: Fold }
    | { kind: "summaries"; text: string; summaries: Summary[]; problem: string }
    | { kind: "instructions"; path: string; text: string; blob: string }
    | { kind: "project"; project: string; files: ProjectFile[] }
    | { kind: "verified"; passed: boolean; proofs: Proof[] }
    | { kind: "finished"; status: Status; summary: string; failure?: Failure }
  );

export type Tone = "quiet" | "good" | "warn" | "bad";

export interface ToolItem {
  kind: "tool";
  callId: string;
  name: string;
  input: unknown;
  state: "running" | "ok" | "error" | "unknown";
  live: string;
  content: Block[];
  blob: string;
  durationMs: number;
}

export interface Draft {
  reasoning: string;
  text: string;
  tools: { name: string; input: string }[];
}

export interface EgressEntry {
  seq: number;
  time: string;
  step: number;
  host: string;
  port: number;
  allowed: boolean;
  reason: string;
  up: number;
  down: number;
  count: number;
  cached: boolean;
}

export interface UsagePoint {
  time: number;
  step: number;
  input: number;
  cached: number;
  output: number;
  tokens: number; // until then, together
  costMicros: number; // until then
}

export interface Frame {
  seq: number;
  step: number;
  blob: string;
  width: number;
  height: number;
}

export interface StepMark {
  step: number;
  seq: number;
  time: string;
}

const maxLive = 64 << 10; // characters of a running tool's output that are kept

/** The history of one job. append changes it in place and moves version on. */
export class History {
  version = 0;
  lastSeq = 0;
  items: Item[] = [];
  draft: Draft | null = null;
  private answering = false; // the model was asked and has not answered
  plan: PlanStep[] = [];
  plans: { seq: number; step: number; steps: PlanStep[] }[] = [];
  steps: StepMark[] = [];
  frames: Frame[] = [];
  egress: EgressEntry[] = [];
  usage: UsagePoint[] = [];
  memory = new Memory();
  changes: { seq: number; step: number; files: FileChange[] }[] = [];
  control: "" | "user" = "";
  task = "";
  limits: Limits | null = null;
  skipped: { path: string; reason: string }[] = [];
  status: Status = "pending";

  private step = 0;
  private calls = new Map<string, number>(); // call -> index of its item
  private question = -1; // index of the question that waits for an answer
  private tokens = 0;
  private costMicros = 0;

  append(events: JobEvent[]): void {
    for (const e of events) {
      if (e.seq > 0) {
        if (e.seq <= this.lastSeq) continue;
        this.lastSeq = e.seq;
      }
      try {
        this.apply(e);
      } catch {
        // One event that is not as it should be must not hide the others.
      }
    }
    this.version++;
  }

  /** The files that changed until a step, with the sums of their lines. */
  changedFiles(untilStep: number): FileChange[] {
    const sums = new Map<string, FileChange>();
    for (const c of this.changes) {
      if (c.step > untilStep) break;
      for (const f of c.files) {
        const s = sums.get(f.path);
        if (!s) sums.set(f.path, { ...f });
        else {
          s.added = s.added < 0 || f.added < 0 ? -1 : s.added + f.added;
          s.deleted = s.deleted < 0 || f.deleted < 0 ? -1 : s.deleted + f.deleted;
        }
      }
    }
    return [...sums.values()].sort((a, b) => a.path.localeCompare(b.path));
  }

  planAt(step: number): PlanStep[] {
    let found: PlanStep[] = [];
    for (const p of this.plans) {
      if (p.step > step) break;
      found = p.steps;
    }
    return found;
  }

  frameAt(step: number): Frame | null {
    let found: Frame | null = null;
    for (const f of this.frames) if (f.step <= step) found = f;
    return found;
  }

  private push(e: JobEvent, item: DistributiveOmit<Item, keyof Base>, part = 0): number {
    const key = part ? `${e.seq}.${part}` : String(e.seq);
    this.items.push({ key, seq: e.seq, time: e.time, step: this.step, ...item } as Item);
    return this.items.length - 1;
  }

  private system(e: JobEvent, tone: Tone, text: string, detail?: string): void {
    this.push(e, { kind: "system", tone, text, detail });
  }

  private apply(e: JobEvent): void {
    switch (e.type) {
      case "model.delta":
        return this.delta(e.data);
      case "tool.output":
        return this.output(e.data);
      case "model.requested":
        this.draft = null;
        this.answering = true;
        if (e.data.step !== this.step) {
          this.step = e.data.step;
          this.steps.push({ step: this.step, seq: e.seq, time: e.time });
        }
        this.memory.requested(this.step, e.data.use);
        return;
      case "model.answered":
        return this.answered(e);
      case "model.failed":
        this.draft = null;
        this.answering = false;
        this.spend(e.time, e.data.usage);
        return this.system(e, e.data.retry ? "warn" : "bad", e.data.retry ? `The model did not answer; trying again${e.data.wait_ms ? ` in ${Math.round(e.data.wait_ms / 1000)} s` : ""}` : "The model did not answer", e.data.message);
      case "tool.started":
        return this.toolStarted(e);
      case "tool.finished":
        return this.toolFinished(e);
      case "plan.updated":
        return this.planUpdated(e);
      case "egress.attempted":
        return this.egressAttempted(e);
      default:
        return this.person(e);
    }
  }

  /** Events of people, of the job's course, and of its machine. */
  private person(e: JobEvent): void {
    switch (e.type) {
      case "job.created":
        this.task = e.data.task;
        this.limits = e.data.limits;
        this.push(e, { kind: "task", text: e.data.task });
        return;
      case "user.message":
        this.answer();
        this.push(e, { kind: "message", text: e.data.text, blob: e.data.blob ?? "", size: e.data.size ?? 0 });
        return;
      case "question.asked":
        this.question = this.push(e, { kind: "question", text: e.data.text, until: e.data.until, answered: false });
        return;
      case "notice":
        this.push(e, { kind: "notice", text: e.data.text });
        return;
      case "limits.raised":
        this.limits = e.data.limits;
        return this.system(e, "quiet", "The limits were raised");
      case "control.changed":
        return this.controlChanged(e);
      default:
        return this.course(e);
    }
  }

  private course(e: JobEvent): void {
    switch (e.type) {
      case "job.claimed":
        this.status = "running";
        return this.system(e, "quiet", e.data.attempt > 1 ? `Another worker took over (attempt ${e.data.attempt})` : "A worker took the job", e.data.worker);
      case "job.released":
        this.status = "pending";
        return this.system(e, "quiet", "The worker gave the job back to the queue", e.data.reason);
      case "job.resumed":
        this.status = "pending";
        return this.system(e, "quiet", "The job goes on", e.data.reason);
      case "job.phase":
        if (e.data.phase !== "verifying" && e.data.phase !== "packing") return;
        return this.system(e, "quiet", e.data.phase === "verifying" ? "Running the proofs" : "Packing the project");
      case "sandbox.awaited":
        return this.system(e, "quiet", e.data.reason);
      case "sandbox.ready":
        return this.system(e, "quiet", sandboxText(e.data), e.data.start_note);
      case "sandbox.lost":
        return this.system(e, "bad", "The sandbox died", e.data.cause);
      case "checkpoint.saved":
        if (e.data.changes?.length) this.changes.push({ seq: e.seq, step: this.step, files: e.data.changes });
        return;
      case "screen.captured":
        this.frames.push({ seq: e.seq, step: e.data.step, blob: e.data.blob, width: e.data.width, height: e.data.height });
        return;
      case "project.verified":
        this.push(e, { kind: "verified", passed: e.data.passed, proofs: e.data.proofs ?? [] });
        return;
      case "artifact.saved":
        this.skipped = e.data.artifact.skipped ?? [];
        return;
      case "job.finished":
        this.status = e.data.status;
        this.draft = null;
        this.answering = false;
        this.answer();
        this.interrupt();
        this.push(e, { kind: "finished", status: e.data.status, summary: e.data.summary ?? "", failure: e.data.failure });
        return;
      default:
        return this.remembered(e);
    }
  }

  /** Events of what the model has before it. */
  private remembered(e: JobEvent): void {
    switch (e.type) {
      case "memory.requested":
        return this.system(e, "quiet", "The model is asked for notes on what happened", spansText(e.data.spans ?? []));
      case "memory.summarized": {
        this.spend(e.time, e.data.usage, true);
        const made = this.memory.summarized(e.data);
        if (made.length > 0 || e.data.problem) this.push(e, { kind: "summaries", text: summariesText(made), summaries: made, problem: e.data.problem ?? "" });
        return;
      }
      case "memory.folded": {
        const fold = this.memory.folded(e.seq, this.step, e.data);
        this.push(e, { kind: "fold", text: foldText(fold), fold });
        return;
      }
      case "instructions.read":
        this.memory.instructions.set(e.data.path, { seq: e.seq, text: e.data.text, blob: e.data.blob ?? "" });
        if (!e.data.text) return this.system(e, "quiet", "A file with standing instructions is gone", e.data.path);
        this.push(e, { kind: "instructions", path: e.data.path, text: e.data.text, blob: e.data.blob ?? "" });
        return;
      case "project.recalled":
        this.memory.project = { name: e.data.project, files: e.data.files ?? [] };
        this.push(e, { kind: "project", project: e.data.project, files: e.data.files ?? [] });
        return;
      case "model.changed":
        return this.system(e, "good", "Another model goes on with the job", e.data.model);
    }
  }

  private delta(d: EventData["model.delta"]): void {
    if (!this.answering) return; // it was overtaken by the answer that it is a piece of
    const draft = (this.draft ??= { reasoning: "", text: "", tools: [] });
    if (d.type === "reasoning") draft.reasoning += d.text;
    else if (d.type === "text") draft.text += d.text;
    else if (d.type === "tool_use") {
      const open = draft.tools.at(-1);
      if (d.name || !open) draft.tools.push({ name: d.name ?? "tool", input: d.text });
      else open.input += d.text;
    }
  }

  private output(d: EventData["tool.output"]): void {
    const at = this.calls.get(d.call_id);
    const item = at === undefined ? undefined : this.items[at];
    if (at === undefined || item?.kind !== "tool" || item.state !== "running") return;
    this.items[at] = { ...item, live: (item.live + d.text).slice(-maxLive) };
  }

  private answered(e: JobEvent & { type: "model.answered" }): void {
    this.draft = null;
    this.answering = false;
    this.spend(e.time, e.data.usage);
    let part = 0;
    for (const b of e.data.message.blocks ?? []) {
      part++;
      if (b.type === "reasoning" && b.text) this.push(e, { kind: "reasoning", text: b.text }, part);
      else if (b.type === "text" && b.text) this.push(e, { kind: "text", text: b.text }, part);
    }
    if (e.data.stop_reason === "max_tokens") this.system(e, "warn", "The model's answer was cut at its bound");
  }

  /** Counts what a call took; one for notes is in the sums, and no bar of its own. */
  private spend(time: string, u: EventData["model.answered"]["usage"] | undefined, notes = false): void {
    if (!u) return;
    const tokens = u.input + u.cache_read + u.cache_write + u.output;
    if (tokens === 0 && u.cost_micros === 0) return;
    this.tokens += tokens;
    this.costMicros += u.cost_micros;
    if (notes) return;
    this.usage.push({ time: Date.parse(time), step: this.step, input: u.input + u.cache_write, cached: u.cache_read, output: u.output, tokens: this.tokens, costMicros: this.costMicros });
  }

  private toolStarted(e: JobEvent & { type: "tool.started" }): void {
    // A plan and a question have items of their own; finish ends in the verification.
    if (e.data.name === "plan" || e.data.name === "ask_user") return;
    const item: ToolItem = { kind: "tool", callId: e.data.call_id, name: e.data.name, input: e.data.input, state: "running", live: "", content: [], blob: "", durationMs: 0 };
    this.calls.set(e.data.call_id, this.push(e, item));
  }

  private toolFinished(e: JobEvent & { type: "tool.finished" }): void {
    const at = this.calls.get(e.data.call_id);
    const item = at === undefined ? undefined : this.items[at];
    if (e.data.name === "ask_user") this.answer();
    if (at === undefined || item?.kind !== "tool") {
      if (e.data.is_error && e.data.name === "plan") this.system(e, "warn", "The plan was refused", blocksText(e.data.content));
      return;
    }
    this.calls.delete(e.data.call_id);
    const state = e.data.unknown ? "unknown" : e.data.is_error ? "error" : "ok";
    this.items[at] = { ...item, state, live: "", content: e.data.content ?? [], blob: e.data.blob ?? "", durationMs: e.data.duration_ms };
  }

  private planUpdated(e: JobEvent & { type: "plan.updated" }): void {
    const steps = e.data.steps ?? [];
    this.plan = steps;
    this.plans.push({ seq: e.seq, step: this.step, steps });
    this.push(e, { kind: "plan", steps, done: steps.filter((s) => s.status === "done").length, active: steps.find((s) => s.status === "active")?.text ?? "" });
  }

  private egressAttempted(e: JobEvent & { type: "egress.attempted" }): void {
    const d = e.data;
    this.egress.push({ seq: e.seq, time: e.time, step: this.step, host: d.host, port: d.port, allowed: d.allowed, reason: d.reason, up: d.bytes_up, down: d.bytes_down, count: d.count, cached: d.cached ?? false });
    if (d.allowed) return;
    const last = this.items.at(-1);
    if (last?.kind === "egress" && last.host === d.host && last.port === d.port) {
      this.items[this.items.length - 1] = { ...last, count: last.count + d.count };
      return;
    }
    this.push(e, { kind: "egress", host: d.host, port: d.port, reason: d.reason, count: d.count });
  }

  private controlChanged(e: JobEvent & { type: "control.changed" }): void {
    this.control = e.data.control;
    if (e.data.control === "user") return this.system(e, "warn", "A person took mouse and keyboard");
    const { changes = [], opened = [], closed = [] } = e.data;
    const told = [changes.length && `${changes.length} changed ${changes.length === 1 ? "file" : "files"}`, opened.length && `opened ${opened.join(", ")}`, closed.length && `closed ${closed.join(", ")}`].filter(Boolean);
    this.system(e, "quiet", "Mouse and keyboard went back to the agent", told.join("; ") || undefined);
  }

  /** What ran when the job ended has no outcome that anyone knows. */
  private interrupt(): void {
    for (const at of this.calls.values()) {
      const item = this.items[at];
      if (item?.kind === "tool" && item.state === "running") this.items[at] = { ...item, state: "unknown" };
    }
    this.calls.clear();
  }

  private answer(): void {
    const item = this.items[this.question];
    if (item?.kind === "question") this.items[this.question] = { ...item, answered: true };
    this.question = -1;
  }
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

function sandboxText(d: EventData["sandbox.ready"]): string {
  const took = d.duration_ms >= 1000 ? `${(d.duration_ms / 1000).toFixed(1)} s` : `${d.duration_ms} ms`;
  if (d.how === "found") return `The sandbox was found again after ${took}`;
  if (d.how === "rebuilt") return `The sandbox was rebuilt from the last checkpoint in ${took}`;
  const start = d.start === "pool" ? " from the pool" : d.start === "template" ? " from the template" : d.start === "cold" ? ", started cold" : "";
  return `The sandbox was ready in ${took}${start} (${d.driver})`;
}

function spansText(spans: { from: number; through: number }[]): string {
  if (spans.length === 0) return "";
  const from = Math.min(...spans.map((s) => s.from));
  const through = Math.max(...spans.map((s) => s.through));
  return `events ${from} to ${through}`;
}

/** The text of a tool's result. */
export function blocksText(blocks: Block[]): string {
  return blocks
    .filter((b) => b.type === "text")
    .map((b) => b.text ?? "")
    .join("\n");
}

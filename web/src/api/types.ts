// The shapes that come over the wire. What OpenAPI describes is taken from the
// generated schema; the data of events is described here, after event.go.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type JobView = Schemas["JobView"];
export type JobList = Schemas["JobList"];
export type Limits = Schemas["Limits"];
export type PlanStep = Schemas["PlanStep"];
export type Proof = Schemas["Proof"];
export type Problem = Schemas["Problem"];
export type DirList = Schemas["DirList"];
export type DirEntry = Schemas["DirEntry"];
export type Accepted = Schemas["Accepted"];
export type Submission = Schemas["Submission"];
export type RequestView = Schemas["RequestView"];
export type Status = JobView["status"];
export type Phase = JobView["phase"];

export interface Usage {
  input: number;
  cache_read: number;
  cache_write: number;
  output: number;
  reasoning: number;
  cost_micros: number;
  calls: number;
}

export interface Block {
  type: "text" | "image" | "tool_use" | "tool_result" | "reasoning";
  text?: string;
  media_type?: string;
  data?: string;
  blob?: string;
  call_id?: string;
  name?: string;
  input?: unknown;
  content?: Block[];
  is_error?: boolean;
}

export interface FileChange {
  path: string;
  added: number;
  deleted: number;
}

export interface Failure {
  code: string;
  limit?: string;
  message: string;
  hint?: string;
}

/** A gap-free range of events. */
export interface Span {
  level: number;
  from: number;
  through: number;
}

/** What stands for a span in the model's window: data, written by a model or derived. */
export interface Summary extends Span {
  by: "model" | "digest";
  text: string;
}

/** What fills the model's window, in tokens. */
export interface WindowUse {
  window: number;
  high: number;
  low: number;
  head: number;
  folded: number;
  tail: number;
}

export type FoldReason = "full" | "cold" | "refused" | "bytes" | "model";

export interface Quote {
  event: number;
  text: string;
}

export interface ProjectFile {
  name: string;
  text: string;
}

/** The data of each type of event that the page reads. */
export interface EventData {
  "job.created": { id: string; task: string; model: string; limits: Limits; project?: string };
  "job.claimed": { worker: string; attempt: number };
  "job.released": { reason: string };
  "job.phase": { phase: Phase };
  "job.resumed": { reason: string };
  "job.finished": { status: Status; summary?: string; failure?: Failure };
  "limits.raised": { limits: Limits };
  "user.message": { text: string; blob?: string; size?: number };
  "sandbox.awaited": { reason: string };
  "sandbox.ready": { id: string; driver: string; how: string; start?: string; start_note?: string; duration_ms: number };
  "sandbox.lost": { id: string; cause: string };
  "model.requested": { step: number; attempt: number; model: string; use?: WindowUse };
  "model.answered": { message: { role: string; blocks: Block[] }; stop_reason: string; usage: Usage; duration_ms: number; first_ms: number };
  "model.failed": { kind: string; message: string; retry: boolean; wait_ms?: number; usage: Usage };
  "model.delta": { type: Block["type"]; text: string; name?: string };
  "tool.started": { call_id: string; name: string; input: unknown };
  "tool.output": { call_id: string; text: string };
  "tool.finished": { call_id: string; name: string; content: Block[]; is_error?: boolean; unknown?: boolean; blob?: string; duration_ms: number };
  notice: { text: string };
  "plan.updated": { steps: PlanStep[] };
  "question.asked": { call_id: string; text: string; until: string };
  "checkpoint.saved": { commit: string; size: number; changes?: FileChange[] };
  "egress.attempted": { host: string; port: number; allowed: boolean; reason: string; bytes_up: number; bytes_down: number; count: number; cached?: boolean };
  "project.verified": { passed: boolean; summary: string; how_to_run: string; proofs: Proof[] | null };
  "artifact.saved": { artifact: { sha256: string; size: number; files: number; skipped?: { path: string; reason: string }[] } };
  "memory.requested": { spans: Span[] | null; attempt: number; model: string };
  "memory.summarized": { summaries: Summary[] | null; asked?: boolean; problem?: string; usage: Usage };
  "memory.folded": { epoch: number; through: number; reason: FoldReason; before: number; use: WindowUse; recalled?: Quote[] };
  "instructions.read": { path: string; text: string; blob?: string };
  "project.recalled": { project: string; files: ProjectFile[] | null };
  "model.changed": { model: string };
  "control.changed": { control: "" | "user"; changes?: FileChange[]; opened?: string[]; closed?: string[] };
  "screen.captured": { step: number; blob: string; width: number; height: number };
}

export type EventType = keyof EventData;

/** An event of the log; seq is 0 for those that are only seen live. */
export type JobEvent = { [T in EventType]: { seq: number; time: string; type: T; data: EventData[T] } }[EventType];

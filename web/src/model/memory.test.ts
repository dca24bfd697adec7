import { describe, expect, it } from "vitest";
import type { EventData, EventType, FoldReason, JobEvent, Summary } from "../api/types";
import { History } from "./history";
import { foldText, noteTitle, reasonOf, summariesText, thinned, type WindowPoint } from "./memory";

let seq = 0;
const ev = <T extends EventType>(type: T, data: EventData[T]): JobEvent => ({ seq: ++seq, time: "2026-01-01T00:00:00Z", type, data }) as unknown as JobEvent;
const usage = { input: 100, cache_read: 900, cache_write: 0, output: 50, reasoning: 0, cost_micros: 30, calls: 1 };
const use = (folded: number, tail: number) => ({ window: 100_000, high: 60_000, low: 30_000, head: 9_000, folded, tail });
const leaf = (from: number, through: number, by: Summary["by"] = "model"): Summary => ({ level: 0, from, through, by, text: `notes on ${from}` });
const request = (step: number, u?: ReturnType<typeof use>, attempt = 1) => ev("model.requested", { step, attempt, model: "m", use: u });
const summarized = (summaries: Summary[], problem?: string) => ev("memory.summarized", { summaries, asked: true, problem, usage });
const folded = (through: number, reason: FoldReason = "full") => ev("memory.folded", { epoch: 2, through, reason, before: 61_000, use: use(4_000, 17_000), recalled: [{ event: 3, text: "a" }] });

function fresh(...events: JobEvent[]): History {
  const h = new History();
  h.append(events);
  return h;
}

describe("the memory of a job", () => {
  it("has a point a step, of the newest attempt that says how the window was filled", () => {
    seq = 0;
    const h = fresh(request(1, use(0, 100)), request(2), request(3, use(0, 300)), request(3, use(0, 400), 2));
    expect(h.memory.points.map((p) => [p.step, p.tail])).toEqual([[1, 100], [3, 400]]);
    expect(h.memory.pointAt(null)?.tail).toBe(400);
    expect(h.memory.pointAt(2)?.tail).toBe(100);
    expect(h.memory.pointAt(0)).toBeNull();
  });

  it("says in the timeline what was folded and why, and what stands for it", () => {
    seq = 0;
    const h = fresh(
      request(1, use(0, 100)),
      ev("memory.requested", { spans: [{ level: 0, from: 1, through: 9 }, { level: 0, from: 10, through: 30 }], attempt: 1, model: "m" }),
      summarized([leaf(1, 9), leaf(10, 30), leaf(31, 40)]),
      folded(30),
      request(2, use(4_000, 17_000)),
    );
    expect(h.items.map((i) => i.kind)).toEqual(["system", "summaries", "fold"]);
    expect(h.items[0]).toMatchObject({ detail: "events 1 to 30" });
    expect(h.items[1]).toMatchObject({ text: "3 notes on what happened were written", problem: "" });
    const fold = h.items[2]!;
    expect(fold).toMatchObject({ kind: "fold", text: "History up to event 30 was folded: about 61k tokens became 30k" });
    expect(fold.kind === "fold" && fold.fold.notes.map((n) => n.from)).toEqual([1, 10]);
    expect(h.memory.folds).toHaveLength(1);
  });

  it("lets a note on notes take their place", () => {
    seq = 0;
    const leaves = Array.from({ length: 8 }, (_, i) => leaf(i * 10 + 1, i * 10 + 10));
    const h = fresh(summarized([...leaves, leaf(81, 90)]), summarized([{ level: 1, from: 1, through: 80, by: "digest", text: "all of it" }]));
    expect(h.memory.notes.map(noteTitle)).toEqual(["Events 1 to 80, from notes of notes", "Events 81 to 90"]);
    expect([h.memory.made, h.memory.digests]).toEqual([10, 1]);
    expect(h.items.at(-1)).toMatchObject({ text: "A note on what happened was derived from the events" });
  });

  it("counts what the notes took in the sums, and not as a step", () => {
    seq = 0;
    const h = fresh(request(1), ev("model.answered", { message: { role: "assistant", blocks: [] }, stop_reason: "tool_use", usage, duration_ms: 1, first_ms: 1 }), summarized([], "empty"));
    expect(h.usage).toHaveLength(1);
    expect(h.memory).toMatchObject({ tokens: 1050, costMicros: 30, refused: 1 });
    expect(h.items.at(-1)).toMatchObject({ kind: "summaries", problem: "empty", text: "The notes of the model were of no use" });
  });

  it("shows instructions, the project's memory and another model", () => {
    seq = 0;
    const h = fresh(
      ev("project.recalled", { project: "billing", files: [{ name: "conventions.md", text: "tabs" }] }),
      ev("instructions.read", { path: "AGENTS.md", text: "never" }),
      ev("instructions.read", { path: "AGENTS.md", text: "" }),
      ev("model.changed", { model: "openai:x" }),
    );
    expect(h.items.map((i) => i.kind)).toEqual(["project", "instructions", "system", "system"]);
    expect(h.memory.project?.name).toBe("billing");
    expect(h.memory.instructions.get("AGENTS.md")?.text).toBe("");
    expect(h.items.at(-1)).toMatchObject({ detail: "openai:x" });
  });

  it("goes on after events that are not as they should be", () => {
    seq = 0;
    const h = fresh(ev("memory.folded", null as never), ev("memory.summarized", { summaries: null, usage: null } as never), ev("memory.folded", { epoch: 2, through: 5, reason: "toString" as never, before: 0 } as never), ev("notice", { text: "still here" }));
    expect(h.items.at(-1)).toMatchObject({ kind: "notice" });
    expect(reasonOf("toString" as never)).toBe("toString");
    expect(foldText(h.memory.folds[0]!)).toBe("History up to event 5 was folded");
    expect(summariesText([])).toContain("no use");
  });

  it("keeps the fullest of many points", () => {
    const points: WindowPoint[] = Array.from({ length: 1000 }, (_, i) => ({ ...use(0, i % 10 === 3 ? 50_000 : 1), step: i }));
    const few = thinned(points, 100);
    expect(few).toHaveLength(100);
    expect(few.every((p) => p.tail === 50_000)).toBe(true);
  });
});

import { describe, expect, it } from "vitest";
import type { EventData, EventType, JobEvent } from "../api/types";
import { History } from "./history";

let seq = 0;
function ev<T extends EventType>(type: T, data: EventData[T], live = false): JobEvent {
  return { seq: live ? 0 : ++seq, time: new Date(1e12 + seq * 1000).toISOString(), type, data } as unknown as JobEvent;
}
const usage = { input: 10, cache_read: 5, cache_write: 0, output: 3, reasoning: 0, cost_micros: 7, calls: 1 };
const answer = (...blocks: EventData["model.answered"]["message"]["blocks"]) => ev("model.answered", { message: { role: "assistant", blocks }, stop_reason: "tool_use", usage, duration_ms: 1, first_ms: 1 });
const request = (step: number, attempt = 1) => ev("model.requested", { step, attempt, model: "m" });

function fresh(...events: JobEvent[]): History {
  const h = new History();
  h.append(events);
  return h;
}

describe("History", () => {
  it("folds a step into what was thought, said and done", () => {
    seq = 0;
    const h = fresh(
      ev("job.created", { id: "1", task: "build", model: "m", limits: {} }),
      request(1),
      answer({ type: "reasoning", text: "hm" }, { type: "text", text: "I look" }, { type: "tool_use", name: "shell", call_id: "c1" }),
      ev("tool.started", { call_id: "c1", name: "shell", input: { command: "ls" } }),
    );
    expect(h.items.map((i) => i.kind)).toEqual(["task", "reasoning", "text", "tool"]);
    expect(h.items.at(-1)).toMatchObject({ state: "running", step: 1 });
    h.append([ev("tool.output", { call_id: "c1", text: "a\n" }, true), ev("tool.output", { call_id: "c1", text: "b\n" }, true)]);
    expect(h.items.at(-1)).toMatchObject({ live: "a\nb\n" });
    h.append([ev("tool.finished", { call_id: "c1", name: "shell", content: [{ type: "text", text: "a\nb" }], duration_ms: 9 })]);
    expect(h.items.at(-1)).toMatchObject({ state: "ok", live: "", durationMs: 9 });
    expect(h.usage.at(-1)).toMatchObject({ tokens: 18, costMicros: 7 });
  });

  it("shows an answer as it is written, and the whole one afterwards", () => {
    seq = 0;
    const h = fresh(request(1), ev("model.delta", { type: "reasoning", text: "let " }, true), ev("model.delta", { type: "reasoning", text: "me" }, true), ev("model.delta", { type: "text", text: "Hel" }, true), ev("model.delta", { type: "tool_use", text: '{"a', name: "shell" }, true), ev("model.delta", { type: "tool_use", text: '":1}' }, true));
    expect(h.draft).toEqual({ reasoning: "let me", text: "Hel", tools: [{ name: "shell", input: '{"a":1}' }] });
    h.append([answer({ type: "text", text: "Hello" })]);
    expect(h.draft).toBeNull();
    expect(h.items.map((i) => i.kind)).toEqual(["text"]);
  });

  it("takes no event twice, however streams overlap", () => {
    seq = 0;
    const events = [request(1), answer({ type: "text", text: "x" })];
    const h = fresh(...events);
    h.append(events);
    expect(h.items).toHaveLength(1);
    expect(h.usage).toHaveLength(1);
  });

  it("keeps an unknown outcome apart from a failure", () => {
    seq = 0;
    const h = fresh(ev("tool.started", { call_id: "a", name: "shell", input: {} }), ev("tool.started", { call_id: "b", name: "shell", input: {} }), ev("tool.finished", { call_id: "a", name: "shell", content: [], is_error: true, unknown: true, duration_ms: 0 }), ev("tool.finished", { call_id: "b", name: "shell", content: [], is_error: true, duration_ms: 0 }));
    expect(h.items.map((i) => i.kind === "tool" && i.state)).toEqual(["unknown", "error"]);
  });

  it("knows no outcome of what ran when the job ended", () => {
    seq = 0;
    const h = fresh(ev("tool.started", { call_id: "a", name: "shell", input: {} }), ev("job.finished", { status: "cancelled" }));
    expect(h.items.map((i) => (i.kind === "tool" ? i.state : i.kind))).toEqual(["unknown", "finished"]);
  });

  it("knows plan, screen and files of every step", () => {
    seq = 0;
    const h = fresh(
      request(1),
      ev("plan.updated", { steps: [{ text: "a", status: "active" }] }),
      ev("checkpoint.saved", { commit: "1", size: 1, changes: [{ path: "x", added: 2, deleted: 0 }] }),
      ev("screen.captured", { step: 1, blob: "f1", width: 8, height: 5 }),
      request(2),
      ev("plan.updated", { steps: [{ text: "a", status: "done" }] }),
      ev("checkpoint.saved", { commit: "2", size: 1, changes: [{ path: "x", added: 1, deleted: 1 }, { path: "b.png", added: -1, deleted: -1 }] }),
      request(3),
      ev("screen.captured", { step: 3, blob: "f3", width: 8, height: 5 }),
    );
    expect(h.steps.map((s) => s.step)).toEqual([1, 2, 3]);
    expect(h.planAt(1)[0]!.status).toBe("active");
    expect(h.planAt(2)[0]!.status).toBe("done");
    expect([0, 1, 2, 3].map((s) => h.frameAt(s)?.blob)).toEqual([undefined, "f1", "f1", "f3"]);
    expect(h.changedFiles(1)).toEqual([{ path: "x", added: 2, deleted: 0 }]);
    expect(h.changedFiles(2)).toEqual([{ path: "b.png", added: -1, deleted: -1 }, { path: "x", added: 3, deleted: 1 }]);
  });

  it("marks a question as answered by what the person says", () => {
    seq = 0;
    const h = fresh(ev("question.asked", { call_id: "q", text: "which?", until: "" }));
    expect(h.items[0]).toMatchObject({ answered: false });
    h.append([ev("user.message", { text: "this" })]);
    expect(h.items[0]).toMatchObject({ answered: true });
  });

  it("lists refusals once for a run of them, and all of the network apart", () => {
    seq = 0;
    const refused = { host: "evil.example", port: 443, allowed: false, reason: "no rule", bytes_up: 0, bytes_down: 0, count: 2 };
    const h = fresh(ev("egress.attempted", refused), ev("egress.attempted", refused), ev("egress.attempted", { ...refused, host: "ok.example", allowed: true }));
    expect(h.items).toHaveLength(1);
    expect(h.items[0]).toMatchObject({ kind: "egress", count: 4 });
    expect(h.egress).toHaveLength(3);
  });

  it("goes on after an event that is not as it should be", () => {
    seq = 0;
    const h = fresh(ev("plan.updated", null as never), ev("model.answered", {} as never), ev("no.such.thing" as never, {} as never), ev("notice", { text: "still here" }));
    expect(h.items.at(-1)).toMatchObject({ kind: "notice", text: "still here" });
  });

  it("folds ten thousand events at once", () => {
    seq = 0;
    const events: JobEvent[] = [];
    for (let i = 1; i <= 2500; i++) events.push(request(i), answer({ type: "text", text: `step ${i}` }), ev("tool.started", { call_id: `c${i}`, name: "shell", input: {} }), ev("tool.finished", { call_id: `c${i}`, name: "shell", content: [], duration_ms: 1 }));
    const began = performance.now();
    const h = fresh(...events);
    expect(h.items).toHaveLength(5000);
    expect(performance.now() - began).toBeLessThan(5000);
  });
});

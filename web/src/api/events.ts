// Follows the events of a job: all there are, then new ones as they come. A
// stream that breaks off is taken up where it ended.
import { isRefusal, request } from "./http";
import { EventParser } from "./sse";
import type { JobEvent } from "./types";

export type Connection = "connecting" | "live" | "waiting" | "ended" | "failed";

export interface Follower {
  /** Events in order. Those of one call came together. */
  onEvents(events: JobEvent[]): void;
  onConnection(state: Connection, err?: unknown): void;
}

const slowest = 10_000; // ms between attempts, at most

/** Follows until the job ends or the signal aborts. */
export async function follow(job: string, after: number, f: Follower, signal: AbortSignal): Promise<void> {
  let last = after;
  let failures = 0;
  while (!signal.aborted) {
    f.onConnection(failures === 0 ? "connecting" : "waiting");
    try {
      const ended = await readStream(job, last, signal, () => f.onConnection("live"), (events) => {
        failures = 0;
        for (const e of events) if (e.seq > last) last = e.seq;
        f.onEvents(events);
      });
      if (ended) return f.onConnection("ended");
    } catch (err) {
      if (signal.aborted) return;
      if (isRefusal(err)) return f.onConnection("failed", err);
    }
    failures++;
    f.onConnection("waiting");
    await pause(Math.min(slowest, 500 * 2 ** Math.min(failures - 1, 6)), signal);
  }
}

async function readStream(job: string, after: number, signal: AbortSignal, onOpen: () => void, onEvents: (events: JobEvent[]) => void): Promise<boolean> {
  const res = await request(`jobs/${encodeURIComponent(job)}/events`, {
    headers: { Accept: "text/event-stream", ...(after > 0 ? { "Last-Event-ID": String(after) } : {}) },
    signal,
  });
  if (!res.body) throw new Error("no body");
  onOpen();
  const reader = res.body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  let seen = after;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return false;
    const events: JobEvent[] = [];
    let ended = false;
    for (const e of parser.push(decoder.decode(value, { stream: true }))) {
      if (e.event === "end") {
        ended = true;
        break;
      }
      const parsed = parse(e.data);
      if (!parsed || (parsed.seq > 0 && parsed.seq <= seen)) continue;
      if (parsed.seq > 0) seen = parsed.seq;
      events.push(parsed);
    }
    if (events.length > 0) onEvents(events);
    if (ended) {
      await reader.cancel().catch(() => {});
      return true;
    }
  }
}

function parse(data: string): JobEvent | null {
  try {
    const e = JSON.parse(data) as JobEvent;
    return typeof e === "object" && e !== null && typeof e.type === "string" && typeof e.data === "object" && e.data !== null ? { ...e, seq: Number(e.seq) || 0 } : null;
  } catch {
    return null;
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}

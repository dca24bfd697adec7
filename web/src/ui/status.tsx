import type { JobView, Phase, Status } from "../api/types";
import { useEffect, useState } from "react";

const statusText: Record<Status, string> = { pending: "Waiting", running: "Running", complete: "Complete", error: "Failed", cancelled: "Cancelled" };
const phaseText: Record<Phase, string> = {
  queued: "in the queue",
  preparing: "preparing the machine",
  working: "working",
  waiting: "waiting for an answer",
  verifying: "verifying",
  packing: "packing",
  done: "done",
};

export const statusWord = (s: Status): string => statusText[s] ?? s;
export const phaseWord = (p: Phase): string => phaseText[p] ?? p;

/** The state of a job: a word with a mark, never a colour alone. */
export function StatusBadge({ job }: { job: Pick<JobView, "status" | "phase"> }) {
  const asks = job.status === "running" && job.phase === "waiting";
  return (
    <span className={`status ${job.status} ${asks ? "asks" : ""}`}>
      <span className="dot" aria-hidden="true" />
      {asks ? "Needs you" : statusWord(job.status)}
    </span>
  );
}

/** The time, once a second while something runs. */
export function useNow(running: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!running) return;
    setNow(Date.now());
    const t = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(t);
  }, [running]);
  return now;
}

/** Milliseconds of work: what the limit of wall time counts. */
export function workMs(job: JobView, fetchedAt: number, now: number): number {
  let ms = 0;
  for (const [phase, spent] of Object.entries(job.phase_ms)) if (phase !== "queued" && phase !== "waiting" && phase !== "done") ms += spent;
  const ticking = job.status === "running" && job.phase !== "waiting";
  return ms + (ticking ? Math.max(0, now - fetchedAt) : 0);
}

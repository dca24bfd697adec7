// Limits as a person writes them, and as the API takes them.
import type { Limits } from "../api/types";
import { binaryBytes, count, dollars, duration } from "./format";

export type LimitName = "steps" | "tokens" | "cost_micros" | "wall_time_seconds" | "memory_bytes" | "cpu_millis" | "processes" | "disk_bytes";

export interface LimitForm {
  name: LimitName;
  label: string;
  unit: string;
  scale: number; // of one unit
  soft: boolean; // can be raised while the job runs
  min: number; // in units
  step: number;
  hint?: string;
}

export const limitForms: LimitForm[] = [
  { name: "cost_micros", label: "Cost", unit: "$", scale: 1e6, soft: true, min: 0.000001, step: 0.01, hint: "A model without a price can't run under it." },
  { name: "tokens", label: "Tokens", unit: "tokens", scale: 1, soft: true, min: 1000, step: 1, hint: "Read and written, together." },
  { name: "steps", label: "Steps", unit: "steps", scale: 1, soft: true, min: 1, step: 1, hint: "Answers of the model." },
  { name: "wall_time_seconds", label: "Work time", unit: "min", scale: 60, soft: true, min: 1 / 60, step: 1, hint: "Waiting for you is not counted." },
  { name: "memory_bytes", label: "Memory", unit: "GiB", scale: 2 ** 30, soft: false, min: 0.25, step: 0.25 },
  { name: "cpu_millis", label: "Processors", unit: "cores", scale: 1000, soft: false, min: 0.1, step: 0.1 },
  { name: "disk_bytes", label: "Disk", unit: "GiB", scale: 2 ** 30, soft: false, min: 0.0625, step: 0.5 },
  { name: "processes", label: "Processes", unit: "at once", scale: 1, soft: false, min: 32, step: 1 },
];

/** The whole number for what was typed, null for what is none; 0 for nothing typed. */
export function parseLimit(f: LimitForm, typed: string): number | null {
  const s = typed.trim().replace(/[\s_,](?=\d{3}(\D|$))/g, "").replace(",", ".");
  if (s === "") return 0;
  if (!/^\d*\.?\d+$/.test(s)) return null;
  const v = Math.round(Number(s) * f.scale);
  return Number.isSafeInteger(v) && v > 0 ? v : null;
}

/** A limit in its own unit, as it would be typed. */
export const showLimit = (f: LimitForm, v: number | undefined): string => (v ? String(+(v / f.scale).toFixed(f.name === "cost_micros" ? 6 : 4)) : "");

/** A limit with its unit. */
export function limitText(name: LimitName, v: number): string {
  switch (name) {
    case "cost_micros":
      return dollars(v);
    case "tokens":
      return `${count(v)} tokens`;
    case "steps":
      return `${count(v)} steps`;
    case "wall_time_seconds":
      return duration(v * 1000).replace(" 00 s", "").replace(" 00 min", "");
    case "memory_bytes":
    case "disk_bytes":
      return binaryBytes(v);
    case "cpu_millis":
      return `${v / 1000} cores`;
    case "processes":
      return `${v} processes`;
  }
}

/** What a job under these limits costs at most, in words. */
export function atMost(l: Limits): { main: string; rest: string } {
  const time = l.wall_time_seconds ? limitText("wall_time_seconds", l.wall_time_seconds) : "";
  const tokens = l.tokens ? limitText("tokens", l.tokens) : "";
  const steps = l.steps ? limitText("steps", l.steps) : "";
  if (l.cost_micros) return { main: limitText("cost_micros", l.cost_micros), rest: [tokens, time].filter(Boolean).join(" \u00b7 ") };
  return { main: tokens || "no bound on tokens", rest: [steps, time, "no limit of money"].filter(Boolean).join(" \u00b7 ") };
}

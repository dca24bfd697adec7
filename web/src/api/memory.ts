// What the model has before it, and who it is.
import { json } from "./http";
import type { Block, JobView, RequestView } from "./types";

/** A request in the server's own encoding. */
export interface WireRequest {
  system: string;
  tools?: { name: string; description: string; schema: unknown }[];
  messages: { role: string; blocks: Block[] | null }[];
}

export const getRequest = (job: string, step: number, signal?: AbortSignal) => json<RequestView>(`jobs/${encodeURIComponent(job)}/requests/${step}`, { signal });

export const changeModel = (job: string, model: string) => json<JobView>(`jobs/${encodeURIComponent(job)}/model`, { method: "POST", json: { model } });

// The endpoints of jobs, one function each.
import { json, request } from "./http";
import type { Accepted, DirList, JobList, JobView, Limits, Status, Submission } from "./types";

const id = encodeURIComponent;

/** A path within a project, escaped piece by piece. */
export const escapePath = (path: string): string => path.split("/").map(encodeURIComponent).join("/");

/** What the server does with a job that says nothing. */
export interface ServerSettings {
  version: string;
  default_model?: string;
  needs_model?: boolean;
  default_limits: Limits;
  max_archive_bytes: number;
  max_task_bytes?: number;
  max_message_bytes?: number;
}

export function settings(signal?: AbortSignal): Promise<ServerSettings> {
  return json<ServerSettings>("settings", { signal });
}

export function listJobs(o: { status: Status[]; q: string; cursor?: string; limit?: number }, signal?: AbortSignal): Promise<JobList> {
  const p = new URLSearchParams();
  for (const s of o.status) p.append("status", s);
  if (o.q) p.set("q", o.q);
  if (o.cursor) p.set("cursor", o.cursor);
  if (o.limit) p.set("limit", String(o.limit));
  const query = p.toString();
  return json<JobList>(query ? `jobs?${query}` : "jobs", { signal });
}

export function getJob(job: string, signal?: AbortSignal): Promise<JobView> {
  return json<JobView>(`jobs/${id(job)}`, { signal });
}

/** Submits a task; the key makes a repeated request harmless. */
export function submit(s: Submission, archive: Blob | null, key: string, signal?: AbortSignal): Promise<Accepted> {
  const headers = { "Idempotency-Key": key };
  if (!archive) return json<Accepted>("schedule", { method: "POST", json: s, headers, signal });
  const form = new FormData();
  form.append("options", JSON.stringify(s));
  form.append("archive", archive, "files.zip");
  return json<Accepted>("schedule", { method: "POST", body: form, headers, signal });
}

export const cancelJob = (job: string) => json<JobView>(`jobs/${id(job)}/cancel`, { method: "POST" });
/** Says something to a job. As text: in JSON what is near the bound could grow beyond it. */
export const say = (job: string, text: string) => json<JobView>(`jobs/${id(job)}/messages`, { method: "POST", body: text, headers: { "Content-Type": "text/plain; charset=utf-8" } });
export const raiseLimits = (job: string, limits: Partial<Limits>) => json<JobView>(`jobs/${id(job)}/limits`, { method: "PATCH", json: limits });
export const deleteJob = (job: string) => request(`jobs/${id(job)}`, { method: "DELETE" });

/** A directory of the project; path is "" for its root. */
export function listDir(job: string, path: string, step?: number, signal?: AbortSignal): Promise<DirList> {
  return json<DirList>(`jobs/${id(job)}/files/${escapePath(path)}${atStep(step)}`, { signal });
}

/** A file of the project. */
export function getFile(job: string, path: string, step?: number, signal?: AbortSignal): Promise<Response> {
  return request(`jobs/${id(job)}/files/${escapePath(path)}${atStep(step)}`, { signal });
}

const atStep = (step?: number) => (step === undefined ? "" : `?step=${step}`);

/** The whole output of a tool, or a picture, by its handle. */
export function getOutput(job: string, handle: string, signal?: AbortSignal): Promise<Response> {
  return request(`jobs/${id(job)}/outputs/${id(handle)}`, { signal });
}

export const artifactPath = (job: string) => `jobs/${id(job)}/artifact.zip`;

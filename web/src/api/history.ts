// The past of a job's workspace.
import { parseUnified, type FileDiff } from "../model/diff";
import { json } from "./http";

interface WireDiff {
  files: { path: string; status: "added" | "deleted" | "modified"; added: number; deleted: number; binary?: boolean; large?: boolean; cut?: boolean; text?: string }[] | null;
  more?: boolean;
}

export interface WorkspaceDiff {
  files: FileDiff[];
  more: boolean; // whether files were left out
}

/** What differs between the start and the end of a step; without one, now. With a path, of that file alone, and more of it. */
export async function getDiff(job: string, step?: number, path?: string, signal?: AbortSignal): Promise<WorkspaceDiff> {
  const p = new URLSearchParams();
  if (step !== undefined) p.set("to", String(step));
  if (path !== undefined) p.set("path", path);
  const query = p.toString();
  const answer = await json<WireDiff>(`jobs/${encodeURIComponent(job)}/diff${query ? `?${query}` : ""}`, { signal });
  return {
    more: answer.more ?? false,
    files: (answer.files ?? []).map((f) => {
      const hunks = f.text ? (parseUnified(f.text)[0]?.hunks ?? []) : [];
      return { path: f.path, from: "", state: f.status, binary: f.binary ?? false, hunks, added: f.added, deleted: f.deleted, cut: f.cut, large: f.large };
    }),
  };
}

// What the jobs of a project learned for its next ones: files that a person
// may read, edit and turn off.
import { json, request } from "./http";

export interface ProjectFileInfo {
  name: string;
  size: number;
  updated_at: string;
}

export interface Project {
  project: string;
  memory: boolean; // whether jobs read and write it
  updated_at: string;
  files: ProjectFileInfo[] | null;
}

const at = (project: string, file?: string) => `projects/${encodeURIComponent(project)}${file === undefined ? "" : `/memory/${encodeURIComponent(file)}`}`;

export async function listProjects(signal?: AbortSignal): Promise<Project[]> {
  return (await json<{ projects: Project[] | null }>("projects", { signal })).projects ?? [];
}

export const getProject = (project: string, signal?: AbortSignal) => json<Project>(at(project), { signal });
export const switchProject = (project: string, memory: boolean) => json<Project>(at(project), { method: "PUT", json: { memory } });
export const deleteProject = (project: string) => request(at(project), { method: "DELETE" });
export const deleteProjectFile = (project: string, file: string) => request(at(project, file), { method: "DELETE" });

/** A file, and the tag of what was read. */
export async function getProjectFile(project: string, file: string, signal?: AbortSignal): Promise<{ text: string; tag: string }> {
  const res = await request(at(project, file), { signal });
  return { text: await res.text(), tag: res.headers.get("ETag") ?? "" };
}

/** Writes a file. With a tag, only if it is still what was read. */
export function putProjectFile(project: string, file: string, text: string, tag: string): Promise<Project> {
  return json<Project>(at(project, file), { method: "PUT", body: text, headers: { "Content-Type": "text/plain; charset=utf-8", ...(tag ? { "If-Match": tag } : {}) } });
}

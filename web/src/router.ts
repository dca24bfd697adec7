// Where the page is, kept behind the # of its address: it works under every
// path prefix, and nothing of it reaches a server's log.
import { useSyncExternalStore } from "react";

export interface Place {
  path: string[]; // its pieces, unescaped
  query: URLSearchParams;
}

let current = read();
const listeners = new Set<() => void>();

function read(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(unescape), query: new URLSearchParams(query) };
}

function unescape(s: string): string {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
}

window.addEventListener("hashchange", () => {
  current = read();
  listeners.forEach((l) => l());
});

export function usePlace(): Place {
  return useSyncExternalStore(
    (l) => {
      listeners.add(l);
      return () => listeners.delete(l);
    },
    () => current,
  );
}

export const href = {
  jobs: "#/",
  create: "#/new",
  projects: "#/projects",
  project: (name: string) => `#/projects/${encodeURIComponent(name)}`,
  job: (id: string) => `#/jobs/${encodeURIComponent(id)}`,
};

export function go(to: string): void {
  location.hash = to;
}

/** Changes parameters of the place without a new entry in the browser's history. */
export function setQuery(changes: Record<string, string | null>): void {
  const q = new URLSearchParams(current.query);
  for (const [k, v] of Object.entries(changes)) {
    if (v === null) q.delete(k);
    else q.set(k, v);
  }
  const s = q.toString();
  history.replaceState(null, "", `#/${current.path.map(encodeURIComponent).join("/")}${s ? `?${s}` : ""}`);
  current = read();
  listeners.forEach((l) => l());
}

// Requests to the server that this page came from. Every address is relative
// to the page's, so that it works under any path prefix.
import type { Problem } from "./types";

/** What the server says went wrong, in words for a person. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly field: string;
  readonly hint: string;

  constructor(status: number, problem: Partial<Problem>) {
    super(problem.detail || problem.title || (status ? `The server answered ${status}.` : "The server can't be reached."));
    this.status = status;
    this.code = problem.code ?? (status ? "internal" : "unavailable");
    this.field = problem.field ?? "";
    this.hint = problem.hint ?? "";
  }
}

/** The absolute address of a path of the API, with or without a leading slash. */
export function address(path: string): string {
  return new URL(path.replace(/^\/+/, ""), document.baseURI.replace(/#.*$/, "")).href;
}

/** The same for a WebSocket. */
export function socketAddress(path: string): string {
  return address(path).replace(/^http/, "ws");
}

// The token lives in this tab: in memory, and in sessionStorage so that a
// reload keeps it. It is never part of an address.
const storageKey = () => `glovebox.token ${new URL(document.baseURI).pathname}`;
let token: string | null = null;
let asked = false;
const listeners = new Set<() => void>();

export const session = {
  get token(): string {
    if (token === null) {
      try {
        token = sessionStorage.getItem(storageKey()) ?? "";
      } catch {
        token = "";
      }
    }
    return token;
  },
  /** Whether the server refused the last request for want of a valid token. */
  get needed(): boolean {
    return asked;
  },
  set(value: string) {
    token = value;
    asked = false;
    try {
      if (value) sessionStorage.setItem(storageKey(), value);
      else sessionStorage.removeItem(storageKey());
    } catch {
      // Without storage it is kept in memory alone.
    }
    listeners.forEach((l) => l());
  },
  require() {
    if (asked) return;
    asked = true;
    listeners.forEach((l) => l());
  },
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

// A link stands for a token, for one job. It arrives behind the # of the
// page's address and is kept like a token, in this tab's memory alone.
const links = new Map<string, { link: string; control: boolean }>();

export const jobLink = {
  get: (job: string) => links.get(job),
  set(job: string, link: string) {
    links.set(job, { link, control: true });
  },
  /** The server said that the link is for watching only. */
  watchOnly(job: string) {
    const l = links.get(job);
    if (l?.control) links.set(job, { ...l, control: false });
  },
};

/** The job that a path of the API is about. */
const jobOf = (path: string): string => decodeURIComponent(/^\/?(?:jobs|status)\/([^/?]+)/.exec(path)?.[1] ?? "");

/** The path with the link of its job, where the page has no token but a link. */
export function withLink(path: string): string {
  const l = session.token ? undefined : links.get(jobOf(path));
  return l ? `${path}${path.includes("?") ? "&" : "?"}link=${encodeURIComponent(l.link)}` : path;
}

export interface RequestOptions {
  method?: string;
  json?: unknown;
  body?: BodyInit;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Sends a request and returns the answer, or throws an ApiError. 304 is an answer. */
export async function request(path: string, o: RequestOptions = {}): Promise<Response> {
  const headers = new Headers(o.headers);
  const sent = session.token;
  if (sent) headers.set("Authorization", `Bearer ${sent}`);
  let body = o.body;
  if (o.json !== undefined) {
    headers.set("Content-Type", "application/json");
    body = JSON.stringify(o.json);
  }
  let res: Response;
  try {
    res = await fetch(address(withLink(path)), { method: o.method ?? "GET", headers, body, signal: o.signal, credentials: "same-origin", redirect: "error" });
  } catch (err) {
    if (o.signal?.aborted) throw err;
    throw new ApiError(0, { hint: "Is it running? The page tries again by itself." });
  }
  if (res.headers.get("Glovebox-Link") === "view") jobLink.watchOnly(jobOf(path));
  if (res.ok || res.status === 304) return res;
  // A late answer to the token before says nothing of the one there is now.
  if (res.status === 401 && session.token === sent) session.require();
  throw await asError(res);
}

async function asError(res: Response): Promise<ApiError> {
  let problem: Partial<Problem> = {};
  try {
    problem = (await res.json()) as Partial<Problem>;
  } catch {
    // Not one of ours: a proxy in between, most likely. The status has to do.
  }
  return new ApiError(res.status, problem);
}

/** Sends a request and returns the JSON of the answer. */
export async function json<T>(path: string, o: RequestOptions = {}): Promise<T> {
  const res = await request(path, { ...o, headers: { Accept: "application/json", ...o.headers } });
  return (await res.json()) as T;
}

/** Whether asking again is of no use: the server has answered, and it was not too busy. */
export const isRefusal = (err: unknown): boolean => err instanceof ApiError && err.status >= 400 && err.status < 500 && err.status !== 408 && err.status !== 429;

/** An error in words, whatever was thrown. */
export function message(err: unknown): string {
  if (err instanceof ApiError) return err.hint ? `${stopped(err.message)} ${stopped(err.hint.charAt(0).toUpperCase() + err.hint.slice(1))}` : err.message;
  return err instanceof Error ? err.message : String(err);
}

/** Ends what would run into what follows. */
const stopped = (s: string): string => (/[.!?]$/.test(s) ? s : s + ".");

// The live machine: its screen, terminal, ports and notebook, and who controls it.
import { address, ApiError, jobLink, json, session, socketAddress } from "./http";
import type { components } from "./schema";
import type { JobView } from "./types";

const id = encodeURIComponent;

export type LinkScope = "view" | "control";
export type Link = components["schemas"]["Link"];
export type Port = components["schemas"]["Port"];

/** Makes a link to a job: it stands for the token where a browser can't send one. */
export function makeLink(job: string, scope: LinkScope, ttlSeconds: number): Promise<Link> {
  return json<Link>(`jobs/${id(job)}/links`, { method: "POST", json: { scope, ttl_seconds: ttlSeconds } });
}

const socketTTL = 120; // seconds: it is used at once

/** A link with as much as the page may do: to control, else to watch. */
async function bestLink(job: string): Promise<string> {
  const given = jobLink.get(job);
  if (given && !session.token) return given.link;
  try {
    return (await makeLink(job, "control", socketTTL)).link;
  } catch (err) {
    if (!(err instanceof ApiError && err.status === 403)) throw err;
    return (await makeLink(job, "view", socketTTL)).link;
  }
}

/** The address of a job's screen, as a socket. Whether input passes is the server's decision. */
export async function screenSocket(job: string): Promise<string> {
  return `${socketAddress(`jobs/${id(job)}/screen/ws`)}?link=${id(await bestLink(job))}`;
}

export interface Seat {
  terminal: string; // its id; empty for a new one
  offset: number; // bytes that were seen
}

/** The address of a terminal, as a socket. */
export async function terminalSocket(job: string, seat: Seat, rows: number, cols: number): Promise<string> {
  const p = new URLSearchParams({ link: await bestLink(job), rows: String(rows), cols: String(cols) });
  if (seat.terminal) {
    p.set("terminal", seat.terminal);
    p.set("offset", String(seat.offset));
  }
  return `${socketAddress(`jobs/${id(job)}/terminal/ws`)}?${p}`;
}

export async function listPorts(job: string, signal?: AbortSignal): Promise<Port[]> {
  return (await json<components["schemas"]["PortList"]>(`jobs/${id(job)}/ports`, { signal })).ports ?? [];
}

export interface Place {
  url: string; // absolute
  own: boolean; // it has an origin of its own
}

/** Where a frame can show what the machine serves. Good for one visit, at once. */
export async function makePlace(job: string, what: { port: number; path?: string } | { notebook: true; path?: string }): Promise<Place> {
  const place = await json<components["schemas"]["Place"]>(`jobs/${id(job)}/places`, { method: "POST", json: what });
  return { own: place.own, url: /^https?:/.test(place.url) ? place.url : address(place.url) };
}

/** Takes mouse and keyboard, or gives them back. */
export function setControl(job: string, control: "user" | "agent"): Promise<JobView> {
  return json<JobView>(`jobs/${id(job)}/control`, { method: "POST", json: { control } });
}

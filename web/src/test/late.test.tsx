// Answers of the server that come late, in another order, or not at all.
import { act, renderHook, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { request, session } from "../api/http";
import type { JobView } from "../api/types";
import { useLoadedJob } from "../job/context";

const view = (seq: number, control: string) => ({ job_id: "j1", status: "running", phase: "working", seq, control, task: "t" }) as unknown as JobView;

let answer: (path: string) => Response | Promise<Response>;
beforeEach(() => {
  session.set("");
  vi.stubGlobal("fetch", async (url: string) => (url.endsWith("/events") ? new Response(new ReadableStream()) : answer(url)));
});
afterEach(() => vi.unstubAllGlobals());

it("an older state of a job does not take the place of a newer one", async () => {
  answer = () => Response.json(view(3, "agent"));
  const { result } = renderHook(() => useLoadedJob("j1"));
  await waitFor(() => expect(result.current.state?.view.seq).toBe(3));
  act(() => result.current.state!.setView(view(9, "user")));
  act(() => result.current.state!.setView(view(8, "agent")));
  expect(result.current.state!.view).toMatchObject({ seq: 9, control: "user" });
});

it("a job is asked for again when the server was not there", async () => {
  let asked = 0;
  answer = () => (++asked === 1 ? new Response("{}", { status: 503 }) : Response.json(view(3, "agent")));
  const { result } = renderHook(() => useLoadedJob("j1"));
  await waitFor(() => expect(result.current.error).not.toBe(""));
  await waitFor(() => expect(result.current.state?.view.seq).toBe(3));
  expect(result.current.error).toBe("");
});

it("a late answer to another token does not ask for the token again", async () => {
  const waiting: ((r: Response) => void)[] = [];
  answer = () => new Promise((resolve) => waiting.push(resolve));
  session.set("wrong");
  const asked = request("jobs");
  await waitFor(() => expect(waiting).toHaveLength(1));
  session.set("right");
  waiting[0]!(new Response("{}", { status: 401 }));
  await expect(asked).rejects.toMatchObject({ status: 401 });
  expect(session.needed).toBe(false);
});

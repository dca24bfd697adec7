// The pages, against a server that is played by fetch.
import { act, cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { App } from "../app";
import { address, jobLink, session, withLink } from "../api/http";
import { go } from "../router";

type Answer = { status?: number; json?: unknown; text?: string; headers?: Record<string, string> };
let asked: { method: string; path: string; headers: Headers; body: unknown }[] = [];
let answers: (method: string, path: string) => Answer;

const xss = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`;
const view = (o: object = {}) => ({
  job_id: "j1", status: "complete", phase: "done", phase_since: "2026-01-01T00:00:00Z", phase_ms: { working: 61_000 }, seq: 3, created_at: "2026-01-01T00:00:00Z",
  task: xss, task_bytes: xss.length, model: "m:x", step: 1, usage: { input: 1, cache_read: 0, cache_write: 0, output: 1, reasoning: 0, cost_micros: 1_500_000, calls: 1, tokens: 2, cost_usd: 1.5 },
  limits: { steps: 10, tokens: 1000, cost_micros: 5_000_000 }, attempts: 1, summary: xss, how_to_run: xss, verification: [{ command: xss, exit_code: 1, output: xss, duration_ms: 5 }],
  artifact: { sha256: "ab", size: 2000, files: 2 }, links: {}, ...o,
});

beforeEach(() => {
  asked = [];
  answers = () => ({ json: {} });
  session.set("");
  vi.stubGlobal("fetch", async (url: string, init: RequestInit = {}) => {
    const path = url.slice(address("").length);
    const method = init.method ?? "GET";
    asked.push({ method, path, headers: new Headers(init.headers), body: init.body });
    const a = answers(method, path);
    return new Response(a.text ?? JSON.stringify(a.json ?? {}), { status: a.status ?? 200, headers: a.headers });
  });
});
afterEach(() => vi.unstubAllGlobals());

async function open(hash: string): Promise<HTMLElement> {
  act(() => go(hash));
  await act(async () => new Promise((r) => window.addEventListener("hashchange", () => r(null), { once: true })).catch(() => {}));
  return render(<App />).container;
}

describe("jobs", () => {
  it("are listed with state, time and cost, and nothing in them is HTML", async () => {
    answers = () => ({ json: { jobs: [view({ status: "running", phase: "waiting", question: xss }), view({ job_id: "j2" })] } });
    const page = render(<App />).container;
    expect(await screen.findByText("Needs you")).toBeTruthy();
    expect(screen.getAllByText("$1.50")).toHaveLength(2);
    expect(screen.getAllByText("1:01").length).toBe(2);
    expect(page.querySelector("img, script")).toBeNull();
    expect(document.title).toContain("Jobs");
  });

  it("say what to do where there are none", async () => {
    answers = () => ({ json: { jobs: [] } });
    render(<App />);
    expect(await screen.findByText("No jobs yet")).toBeTruthy();
  });

  it("ask for a token where one is needed, and send it in no address", async () => {
    answers = () => (session.token === "secret" ? { json: { jobs: [] } } : { status: 401, json: { detail: "no token", code: "unauthorized" } });
    render(<App />);
    const field = await screen.findByLabelText("Token");
    fireEvent.change(field, { target: { value: "secret" } });
    fireEvent.click(screen.getByText("Continue"));
    expect(await screen.findByText("No jobs yet")).toBeTruthy();
    expect(asked.at(-1)!.headers.get("Authorization")).toBe("Bearer secret");
    expect(asked.every((a) => !a.path.includes("secret"))).toBe(true);
    expect(location.href).not.toContain("secret");
  });
});

describe("a new job", () => {
  it("is sent as it was written, with the limits in the API's units", async () => {
    answers = (method, path) => (method === "POST" ? { status: 202, json: { job_id: "j9" } } : path === "settings" ? { json: { version: "1", default_model: "m:x", default_limits: { tokens: 20_000_000, steps: 300 }, max_archive_bytes: 1 << 20 } } : { json: { jobs: [] } });
    await open("#/new");
    expect(await screen.findByText("20M tokens")).toBeTruthy();
    fireEvent.change(screen.getByLabelText("Task"), { target: { value: "build it" } });
    fireEvent.change(screen.getByLabelText("Cost"), { target: { value: "2.50" } });
    expect(await screen.findByText("$2.50")).toBeTruthy();
    fireEvent.click(screen.getByLabelText("Only"));
    fireEvent.change(screen.getByLabelText("Hosts"), { target: { value: "a.example\n.b.example:8443" } });
    fireEvent.keyDown(screen.getByLabelText("Task"), { key: "Enter", ctrlKey: true });
    await waitFor(() => expect(asked.some((a) => a.method === "POST")).toBe(true));
    const sent = asked.find((a) => a.method === "POST")!;
    expect(JSON.parse(sent.body as string)).toEqual({ task: "build it", limits: { cost_micros: 2_500_000 }, egress: { mode: "only", allow: ["a.example", ".b.example:8443"] } });
    expect(sent.headers.get("Idempotency-Key")).toMatch(/^[0-9a-f]{32}$/);
  });

  it("brings files or a git repository along", async () => {
    answers = (method, path) => (method === "POST" ? { status: 202, json: { job_id: "j9" } } : path === "settings" ? { json: { default_model: "m:x", default_limits: {}, max_archive_bytes: 10 } } : { json: { jobs: [] } });
    const page = await open("#/new");
    const sent = () => asked.filter((a) => a.method === "POST").at(-1)?.body;
    fireEvent.change(await screen.findByLabelText("Task"), { target: { value: "mend it" } });
    const input = page.querySelector("input[type=file]")!;
    const choose = (content: string) => fireEvent.change(input, { target: { files: [new File([content], "project.zip")] } });
    choose("more than the server takes");
    fireEvent.click(screen.getByText(/Start the job/));
    expect(await screen.findByText(/the server takes 10 B/)).toBeTruthy();
    expect(sent()).toBeUndefined();
    fireEvent.click(screen.getByLabelText("Remove the files"));
    choose("zip");
    expect(await screen.findByText(/project\.zip, 3 B/)).toBeTruthy();
    fireEvent.click(screen.getByText(/Start the job/));
    await waitFor(() => expect(sent()).toBeInstanceOf(FormData));
    const form = sent() as FormData;
    expect((form.get("archive") as File).size).toBe(3);
    expect(JSON.parse(form.get("options") as string)).toEqual({ task: "mend it" });
    act(() => go("#/new"));
    fireEvent.change(await screen.findByLabelText("Task"), { target: { value: "look at it" } });
    fireEvent.click(screen.getByText("A git repository"));
    fireEvent.change(screen.getByLabelText("Address of the git repository"), { target: { value: "https://example.org/p.git" } });
    fireEvent.change(screen.getByLabelText("Branch, tag or commit"), { target: { value: "main" } });
    fireEvent.click(screen.getByText(/Start the job/));
    await waitFor(() => expect(typeof sent()).toBe("string"));
    expect(JSON.parse(sent() as string)).toEqual({ task: "look at it", files: { git_url: "https://example.org/p.git", git_ref: "main" } });
  });

  it("says that the server has no model before anything is typed", async () => {
    let settings: object = { needs_model: true, default_limits: {} };
    answers = (method, path) => (method === "POST" ? { status: 202, json: { job_id: "j9" } } : { json: path === "settings" ? settings : { jobs: [] } });
    const page = await open("#/new");
    expect((await screen.findByText(/This server has no model/)).textContent).toContain("ANTHROPIC_API_KEY");
    fireEvent.change(screen.getByLabelText("Task"), { target: { value: "build it" } });
    fireEvent.click(screen.getByText(/Start the job/));
    expect(await screen.findByText(/has no model of its own/)).toBeTruthy();
    expect(asked.some((a) => a.method === "POST")).toBe(false);
    fireEvent.change(screen.getByLabelText("Provider and name"), { target: { value: "chat:mine" } });
    await waitFor(() => expect(page.textContent).not.toContain("This server has no model, so"));
    cleanup();
    settings = { needs_model: false, default_limits: {} }; // those who run jobs may have one
    act(() => go("#/"));
    await open("#/new");
    expect(await screen.findByText(/that of the worker which runs the job/)).toBeTruthy();
    fireEvent.change(screen.getByLabelText("Task"), { target: { value: "build it" } });
    fireEvent.click(screen.getByText(/Start the job/));
    await waitFor(() => expect(asked.some((a) => a.method === "POST")).toBe(true));
  });

  it("takes a long paste as a piece of its own, and says when it is too much", async () => {
    answers = (method, path) => (method === "POST" ? { status: 202, json: { job_id: "j9" } } : { json: path === "settings" ? { default_model: "m:x", default_limits: {}, max_task_bytes: 100_000 } : { jobs: [] } });
    const log = "a line of a log\n".repeat(5_000); // 80 kB
    await open("#/new");
    const box = await screen.findByLabelText<HTMLTextAreaElement>("Task");
    fireEvent.change(box, { target: { value: "what is wrong here?" } });
    fireEvent.paste(box, { clipboardData: { getData: () => log } });
    expect(box.value).toBe("what is wrong here?");
    expect(await screen.findByText(/80.0 kB of at most 100 kB/)).toBeTruthy();
    fireEvent.paste(box, { clipboardData: { getData: () => log } });
    expect(await screen.findByText(/60,023 bytes more than the 100 kB/)).toBeTruthy();
    expect(screen.getByText(/Start the job/).closest("button")!.disabled).toBe(true);
    fireEvent.click(screen.getAllByLabelText(/Remove the pasted text/)[0]!);
    cleanup(); // and after a reload all of it is there
    act(() => go("#/"));
    await open("#/new");
    expect(await screen.findByText(/80.0 kB of at most 100 kB/)).toBeTruthy();
    fireEvent.click(screen.getByText(/Start the job/));
    await waitFor(() => expect(asked.some((a) => a.method === "POST")).toBe(true));
    expect(JSON.parse(asked.find((a) => a.method === "POST")!.body as string)).toEqual({ task: "what is wrong here?\n\n" + log });
  });

  it("shows what is wrong beside the field that it is about", async () => {
    answers = (method) => (method === "POST" ? { status: 400, json: { detail: "there is no model x", field: "model", hint: "name one", code: "invalid" } } : { json: { default_model: "m:x", default_limits: {} } });
    await open("#/new");
    fireEvent.change(await screen.findByLabelText("Task"), { target: { value: "build it" } });
    fireEvent.click(screen.getByText(/Start the job/));
    const note = await screen.findByText("there is no model x. Name one.");
    expect(screen.getByLabelText("Provider and name").getAttribute("aria-describedby")).toBe(note.id);
  });
});

describe("a job", () => {
  const event = (seq: number, type: string, data: unknown) => `id: ${seq}\nevent: ${type}\ndata: ${JSON.stringify({ seq, time: "2026-01-01T00:00:00Z", type, data })}\n\n`;

  it("shows its result, and nothing that came out of it is HTML", async () => {
    const log =
      event(1, "job.created", { id: "j1", task: xss, model: "m", limits: {} }) + event(2, "notice", { text: xss }) + event(3, "job.finished", { status: "complete", summary: xss }) + "event: end\ndata: {}\n\n";
    answers = (_, path) => (path.endsWith("/events") ? { text: log, headers: { "Content-Type": "text/event-stream" } } : { json: view() });
    const page = await open("#/jobs/j1");
    expect(await screen.findByText("What was built")).toBeTruthy();
    expect(screen.getByText("0 of 1 hold")).toBeTruthy();
    expect(screen.getByText(/Download the project/).closest("a")?.getAttribute("href")).toBe(address("jobs/j1/artifact.zip"));
    expect(page.querySelector("img, script, [onerror]")).toBeNull();
    expect((window as unknown as { pwned?: number }).pwned).toBeUndefined();
    expect(page.textContent).toContain("onerror");
  });

  it("offers to go on where a limit stopped it", async () => {
    answers = (method, path) =>
      method === "PATCH" ? { status: 202, json: view({ status: "pending", phase: "queued" }) } : path.endsWith("/events") ? { text: "event: end\ndata: {}\n\n" } : { json: view({ status: "error", summary: "", artifact: undefined, error: { code: "limit", limit: "steps", message: "10 steps were used", hint: "raise it" } }) };
    await open("#/jobs/j1");
    fireEvent.click(await screen.findByText("Raise the limit and go on"));
    fireEvent.change(screen.getByLabelText("Steps"), { target: { value: "5" } });
    expect(screen.getByText(/it can only be raised/)).toBeTruthy();
    fireEvent.change(screen.getByLabelText("Steps"), { target: { value: "50" } });
    fireEvent.click(screen.getByText("Raise and go on", { selector: "dialog footer *" }));
    await waitFor(() => expect(asked.find((a) => a.method === "PATCH")?.body).toBe('{"steps":50}'));
  });

  it("opened by a link sends the link, for this job alone, and offers no changes", async () => {
    answers = (_, path) => (path.includes("/events") ? { text: "" } : { json: view({ status: "running", phase: "working", artifact: undefined, summary: "", verification: [] }) });
    await open("#/jobs/j7?tab=files&link=sealed");
    await waitFor(() => expect(asked.some((a) => a.path === "jobs/j7?link=sealed")).toBe(true));
    expect(location.href).not.toContain("sealed");
    expect(jobLink.get("j7")).toBeTruthy();
    expect(withLink("jobs/j7/files/?step=1")).toBe("jobs/j7/files/?step=1&link=sealed");
    expect(withLink("jobs/j8")).toBe("jobs/j8");
    expect(withLink("jobs")).toBe("jobs");
    expect(screen.queryByLabelText("Say something to the agent")).toBeNull();
  });

  it("shows what the model has before it, and the exact request, as data", async () => {
    const use = { window: 100_000, high: 60_000, low: 30_000, head: 9_000, folded: 4_000, tail: 20_000 };
    const log =
      event(1, "job.created", { id: "j1", task: "t", model: "m", limits: {} }) + event(2, "instructions.read", { path: xss, text: xss }) + event(3, "model.requested", { step: 1, attempt: 1, model: "m", use }) +
      event(4, "memory.summarized", { summaries: [{ level: 0, from: 1, through: 3, by: "model", text: xss }], usage: { input: 1, cache_read: 0, cache_write: 0, output: 1, reasoning: 0, cost_micros: 90_000, calls: 1 } }) +
      event(5, "memory.folded", { epoch: 2, through: 3, reason: "full", before: 61_000, use, recalled: [{ event: 2, text: xss }] }) + event(6, "model.requested", { step: 2, attempt: 1, model: "m", use }) + "event: end\ndata: {}\n\n";
    const request = { job_id: "j1", step: 2, attempt: 1, attempts: 1, event: 6, time: "", model: "m", epoch: 2, use, opening: ["head", "folded"], sha256: "ab", recorded_sha256: "cd", same: false, bytes: 9,
      request: { system: xss, tools: [{ name: xss, description: xss, schema: {} }], messages: [{ role: "user", blocks: [{ type: "text", text: "task" }, { type: "text", text: xss }, { type: "text", text: "orders" }] }, { role: "assistant", blocks: null }] } };
    answers = (_, path) => (path.endsWith("/events") ? { text: log, headers: { "Content-Type": "text/event-stream" } } : path.includes("/requests/") ? { json: request } : { json: view({ memory: { cache_share: 0.987, epoch_cache_share: 0.5, usage: {}, use } }) });
    const page = await open("#/jobs/j1?tab=memory");
    expect(await screen.findByText("99 %")).toBeTruthy();
    expect(screen.getByText(/33k tokens of 100k/)).toBeTruthy();
    expect(screen.getAllByText("Events 1 to 3").length).toBeGreaterThan(0);
    expect(screen.getByText("$0.09")).toBeTruthy();
    fireEvent.click(screen.getByText(/What the model saw at step 2/));
    expect(await screen.findByText(/not what was sent/)).toBeTruthy();
    for (const head of page.querySelectorAll(".fold-head")) fireEvent.click(head);
    expect(asked.some((a) => a.path === "jobs/j1/requests/2")).toBe(true);
    expect(page.querySelector("img, script, [onerror]")).toBeNull();
    expect(page.textContent).toContain("onerror");
  });

  it("is told a paste of megabytes as it is, and keeps it where that fails", async () => {
    let fail = true;
    const running = view({ status: "running", phase: "working", artifact: undefined, summary: "", verification: [] });
    answers = (method, path) =>
      method === "POST" ? (fail ? { status: 503, json: { detail: "the disk is full", code: "unavailable" } } : { status: 202, json: running }) : path.includes("/events") ? { text: "" } : { json: path === "settings" ? { max_message_bytes: 8 << 20 } : running };
    const log = "\u001b[31mred\u001b[0m and \u201cquoted\u201d\n".repeat(200_000); // 6 MB
    await open("#/jobs/j1");
    const box = await screen.findByLabelText<HTMLTextAreaElement>("Say something to the agent");
    fireEvent.paste(box, { clipboardData: { getData: () => log } });
    expect(box.value).toBe("");
    expect(await screen.findByText(/of at most 8.4 MB/)).toBeTruthy();
    fireEvent.keyDown(box, { key: "Enter", ctrlKey: true });
    expect(await screen.findByText(/the disk is full/)).toBeTruthy();
    expect(screen.getByText(/Pasted text, 6.0 MB/)).toBeTruthy();
    fail = false;
    fireEvent.keyDown(box, { key: "Enter", ctrlKey: true });
    await waitFor(() => expect(screen.queryByText(/Pasted text/)).toBeNull());
    const sent = asked.filter((a) => a.method === "POST").at(-1)!;
    expect(sent.path).toBe("jobs/j1/messages");
    expect(sent.headers.get("Content-Type")).toMatch("text/plain");
    expect(sent.body === log).toBe(true);
  });

  it("takes its end with the events before it, and asks for them once", async () => {
    const log = event(4, "job.finished", { status: "complete" }) + "event: end\ndata: {}\n\n";
    let loads = 0;
    answers = (_, path): Answer =>
      path.includes("/events") ? { text: log, headers: { "Content-Type": "text/event-stream" } } : { json: loads++ === 0 ? view({ status: "running", phase: "working", artifact: undefined, summary: "", verification: [] }) : view({ seq: 4 }) };
    await open("#/jobs/j1?tab=usage");
    await screen.findByText("Running");
    expect(await screen.findByText("Delete")).toBeTruthy();
    expect(asked.filter((a) => a.path.includes("/events")).length).toBe(1);
  });

  it("says on a narrow page, whatever is shown, that the agent asks", async () => {
    const wide = window.matchMedia;
    window.matchMedia = ((query: string) => ({ ...wide(query), matches: query.includes("max-width"), addEventListener() {}, removeEventListener() {} })) as typeof matchMedia;
    try {
      answers = (_, path) => (path.includes("/events") ? { text: "" } : { json: view({ status: "running", phase: "waiting", question: "Which port?", artifact: undefined, summary: "", verification: [] }) });
      await open("#/jobs/j1?tab=files");
      expect((await screen.findByRole("tab", { name: /Activity/ })).textContent).toContain("asks");
      cleanup();
      answers = (_, path) => (path.includes("/events") ? { text: "" } : { json: view({ status: "running", phase: "working", artifact: undefined, summary: "", verification: [] }) });
      await open("#/jobs/j2?tab=files");
      expect((await screen.findByRole("tab", { name: /Activity/ })).textContent).toBe("Activity");
    } finally {
      window.matchMedia = wide;
    }
  });

  it("does not offer the exact request to who may only watch", async () => {
    const log = event(1, "job.created", { id: "j1", task: "t", model: "m", limits: {} }) + event(2, "model.requested", { step: 1, attempt: 1, model: "m", use: { window: 100_000, high: 60_000, low: 30_000, head: 9_000, folded: 4_000, tail: 20_000 } }) + "event: end\ndata: {}\n\n";
    let scope = "view";
    answers = (_, path): Answer => (path.includes("/events") ? { text: log, headers: { "Content-Type": "text/event-stream" } } : { json: view({ memory: { cache_share: 0.9, epoch_cache_share: 0.5, usage: {}, use: { window: 100_000, head: 9_000, folded: 4_000, tail: 20_000 } } }), headers: { "Glovebox-Link": scope } });
    await open("#/jobs/j5?tab=memory&link=sealed");
    expect(await screen.findByText("90 %")).toBeTruthy();
    expect(screen.queryByText(/What the model saw/)).toBeNull();
    cleanup();
    scope = "control";
    await open("#/jobs/j6?tab=memory&link=sealed");
    expect(await screen.findByText(/What the model saw at step 1/)).toBeTruthy();
  });

  it("lets another model go on, and says what is wrong with its name", async () => {
    let refuse = true;
    answers = (_, path) =>
      path.endsWith("/model") ? (refuse ? { status: 400, json: { detail: "there is no provider x", field: "model", code: "invalid" } } : { status: 202, json: view({ status: "running", phase: "working", model: "y:z" }) }) : path.includes("/events") ? { text: "" } : { json: view({ status: "running", phase: "working", artifact: undefined, summary: "", verification: [] }) };
    await open("#/jobs/j1");
    fireEvent.click(await screen.findByLabelText("Change the model"));
    fireEvent.change(screen.getByLabelText("Provider and name"), { target: { value: "x:y" } });
    fireEvent.click(screen.getByText("Go on with it", { selector: "dialog footer *" }));
    expect(await screen.findByText(/there is no provider x/)).toBeTruthy();
    refuse = false;
    fireEvent.change(screen.getByLabelText("Provider and name"), { target: { value: "y:z" } });
    fireEvent.click(screen.getByText("Go on with it", { selector: "dialog footer *" }));
    await waitFor(() => expect(screen.queryByText("Another model")).toBeNull());
    expect(asked.filter((a) => a.path.endsWith("/model")).at(-1)?.body).toBe('{"model":"y:z"}');
  });
});

describe("the memory of projects", () => {
  const project = (o: object = {}) => ({ project: "billing", memory: true, updated_at: "2026-01-01T00:00:00Z", files: [{ name: "conventions.md", size: 4, updated_at: "2026-01-01T00:00:00Z" }], ...o });

  it("is listed, with what to do where there is none", async () => {
    answers = () => ({ json: { projects: [project(), project({ project: "other", memory: false })] } });
    await open("#/projects");
    expect((await screen.findByText("billing")).closest("a")?.getAttribute("href")).toBe("#/projects/billing");
    expect(screen.getAllByText("off")).toHaveLength(1);
  });

  it("can be read, changed only as it was read, turned off and removed", async () => {
    answers = (method, path) =>
      path.endsWith("/memory/conventions.md") && method === "GET" ? { text: xss, headers: { ETag: '"t1"' } } : method === "PUT" && path === "projects/billing" ? { json: project({ memory: false }) } : method === "DELETE" ? { json: {} } : { json: project() };
    const page = await open("#/projects/billing");
    fireEvent.click(await screen.findByText("conventions.md"));
    const text = (await screen.findByLabelText("Text of conventions.md")) as HTMLTextAreaElement;
    expect(text.value).toBe(xss);
    expect(page.querySelector("img, script")).toBeNull();
    fireEvent.change(text, { target: { value: "tabs" } });
    fireEvent.click(screen.getByText("Save"));
    await waitFor(() => expect(asked.some((a) => a.method === "PUT")).toBe(true));
    const put = asked.find((a) => a.method === "PUT")!;
    expect([put.path, put.body, put.headers.get("If-Match")]).toEqual(["projects/billing/memory/conventions.md", "tabs", '"t1"']);
    fireEvent.click(screen.getByRole("checkbox"));
    expect(await screen.findByText(/It is off/)).toBeTruthy();
    fireEvent.change(screen.getByLabelText("Another file"), { target: { value: "notes.md" } });
    fireEvent.click(screen.getByText("Add"));
    expect(await screen.findByLabelText("Text of notes.md")).toBeTruthy();
    fireEvent.click(screen.getByText("Forget all of it"));
    fireEvent.click(screen.getByText("Forget it for good"));
    await waitFor(() => expect(asked.some((a) => a.method === "DELETE" && a.path === "projects/billing")).toBe(true));
  });

  it("is named in a new job", async () => {
    answers = (method, path) => (method === "POST" ? { status: 202, json: { job_id: "j9" } } : path === "settings" ? { json: { default_model: "m:x", default_limits: {} } } : { json: { jobs: [] } });
    await open("#/new");
    fireEvent.change(await screen.findByLabelText("Task"), { target: { value: "go on" } });
    fireEvent.change(screen.getByLabelText("Name of the project"), { target: { value: "billing" } });
    fireEvent.click(screen.getByText(/Start the job/));
    await waitFor(() => expect(asked.some((a) => a.method === "POST")).toBe(true));
    expect(JSON.parse(asked.find((a) => a.method === "POST")!.body as string)).toEqual({ task: "go on", project: "billing" });
  });
});

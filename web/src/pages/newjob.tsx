// The form for a new job.
import { useEffect, useRef, useState } from "react";
import { ApiError, message } from "../api/http";
import { settings, submit, type ServerSettings } from "../api/jobs";
import type { Limits, Submission } from "../api/types";
import { isArchive, type Picked } from "../model/attach";
import { draftOf, emptyDraft, isBlank, wholeText, type Draft } from "../model/draft";
import type { Packed } from "../model/pack";
import { atMost, limitForms, parseLimit, showLimit, type LimitName } from "../model/limits";
import { bytes } from "../model/format";
import { go, href } from "../router";
import { Button, Field, Kbd, Notice, Segmented } from "../ui/controls";
import { DraftArea, DraftPieces, tooLarge } from "../ui/draft";
import { announce, toast } from "../ui/toast";
import { Attach, type Attachment } from "./attach";

type EgressMode = "" | "none" | "only" | "extend";

const examples = [
  { name: "Todo app", task: "Build me a todo app in React" },
  { name: "Data report", task: "Write a Python script that makes a random but plausible year of sales data as CSV, then analyse it: monthly totals, the three best products, a forecast for the next quarter. Put the figures and two charts into a report in Markdown." },
  { name: "Browser game", task: "Make a small Snake game that runs in the browser without a framework. Keyboard and touch, a high score that is kept, a pause key. Open it and play one round to see that it works." },
  { name: "Fix a bug", task: "The attached project has a failing test. Find out why, mend the code and not the test, and explain the cause in two sentences." },
];

const draftKey = "glovebox.draft";

const piecesKey = "glovebox.draft.pieces";

function storedDraft(): Draft {
  try {
    const pieces: unknown = JSON.parse(sessionStorage.getItem(piecesKey) ?? "[]");
    return draftOf(sessionStorage.getItem(draftKey) ?? "", Array.isArray(pieces) ? pieces.filter((p) => typeof p === "string") : []);
  } catch {
    return emptyDraft;
  }
}

/** Keeps a part of the draft for a reload: whole, or not at all where there is no room for it. */
function keep(key: string, value: string): void {
  try {
    sessionStorage.removeItem(key);
    if (value) sessionStorage.setItem(key, value);
  } catch {
    // It is a convenience alone.
  }
}

export function NewJobPage() {
  const [draft, setDraft] = useState(storedDraft);
  const [model, setModel] = useState("");
  const [typed, setTyped] = useState<Partial<Record<LimitName, string>>>({});
  const [project, setProject] = useState("");
  const [mode, setMode] = useState<EgressMode>("");
  const [allow, setAllow] = useState("");
  const [attached, setAttached] = useState<Attachment>({ kind: "none" });
  const [server, setServer] = useState<ServerSettings | null>(null);
  const [busy, setBusy] = useState("");
  const [error, setError] = useState<ApiError | Error | null>(null);
  const key = useRef({ of: "", value: "" });
  const box = useRef<HTMLTextAreaElement>(null);

  useEffect(() => {
    const abort = new AbortController();
    settings(abort.signal).then(setServer, () => {});
    box.current?.focus();
    return () => abort.abort();
  }, []);
  useEffect(() => keep(draftKey, draft.text), [draft.text]);
  useEffect(() => keep(piecesKey, draft.pastes.length ? JSON.stringify(draft.pastes.map((p) => p.text)) : ""), [draft.pastes]);

  const limits: Limits = {};
  const bad: Partial<Record<LimitName, string>> = {};
  for (const f of limitForms) {
    const v = parseLimit(f, typed[f.name] ?? "");
    if (v === null) bad[f.name] = "A number, please.";
    else if (v > 0) limits[f.name] = v;
  }
  const field = error instanceof ApiError ? error.field : "";
  const fieldError = (name: string) => (field === name || field.startsWith(name + "[") ? message(error) : "");
  const shownElsewhere = ["model", "project", "egress", "egress.allow", "egress.mode", "files.git_url", "files.git_ref", "task"].some((f) => fieldError(f)) || field.startsWith("limits.");

  const over = tooLarge(draft, server?.max_task_bytes);
  const send = async () => {
    if (busy) return;
    if (isBlank(draft) || over) return box.current?.focus();
    if (server?.needs_model && !model.trim()) {
      setError(new ApiError(400, { detail: "The server has no model of its own.", field: "model", hint: "Name one." }));
      return;
    }
    setError(null);
    setBusy("Sending");
    try {
      const rules = allow.split(/[\s,]+/).filter(Boolean);
      const s: Submission = { task: wholeText(draft) };
      if (model.trim()) s.model = model.trim();
      if (project.trim()) s.project = project.trim();
      if (Object.keys(limits).length > 0) s.limits = limits;
      if (mode) s.egress = mode === "none" ? { mode } : { mode, allow: rules };
      if (attached.kind === "git" && attached.url.trim()) s.files = { git_url: attached.url.trim(), ...(attached.ref.trim() ? { git_ref: attached.ref.trim() } : {}) };
      const archive = await archiveOf(attached, server?.max_archive_bytes ?? 512 << 20, setBusy);
      setBusy(archive ? `Sending ${bytes(archive.blob.size)}` : "Sending");
      const digest = JSON.stringify([s, archive?.blob.size ?? 0]);
      if (key.current.of !== digest) key.current = { of: digest, value: newKey() };
      const made = await submit(s, archive?.blob ?? null, key.current.value);
      keep(draftKey, "");
      keep(piecesKey, "");
      announce("The job was accepted");
      go(href.job(made.job_id));
    } catch (err) {
      setError(err instanceof Error ? err : new Error(String(err)));
      setBusy("");
    }
  };

  const most = atMost({ ...server?.default_limits, ...limits });
  return (
    <form
      className="new-job"
      onSubmit={(e) => {
        e.preventDefault();
        void send();
      }}
      onKeyDown={(e) => {
        if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) {
          e.preventDefault();
          void send();
        }
      }}
    >
      <div className="new-main">
        <h1>What should be built?</h1>
        {server?.needs_model && !model.trim() && (
          <Notice tone="warn">
            This server has no model, so no job can run. Where it is started, set <code>ANTHROPIC_API_KEY</code>, <code>OPENAI_API_KEY</code> or <code>GEMINI_API_KEY</code>. Or name a model here: <code>chat:NAME</code>, of a server of your own, or <code>replay:FILE</code>, a recording.
          </Notice>
        )}
        <div className="task-card">
          <DraftArea box={box} draft={draft} onDraft={setDraft} readOnly={!!busy} aria-label="Task" aria-describedby="task-note" placeholder="Describe it in plain words: what it is for, what it must do, how you will know that it works." rows={9} />
          <DraftPieces draft={draft} onDraft={setDraft} max={server?.max_task_bytes} disabled={!!busy} />
          <Attach value={attached} onChange={setAttached} gitError={fieldError("files.git_url") || fieldError("files.git_ref")} />
        </div>
        {fieldError("task") && <Notice tone="bad">{fieldError("task")}</Notice>}
        <div className="examples" role="group" aria-label="Examples to start from">
          <span className="muted">Try</span>
          {examples.map((x) => (
            <button
              type="button"
              key={x.name}
              className="chip"
              onClick={() => {
                setDraft({ ...draft, text: x.task });
                box.current?.focus();
              }}
            >
              {x.name}
            </button>
          ))}
        </div>
        {error && !shownElsewhere && <Notice tone="bad">{message(error)}</Notice>}
        <div className="submit-bar">
          <p id="task-note">
            <span className="muted">At most </span>
            <strong>{most.main}</strong>
            <span className="muted"> &middot; {most.rest}</span>
          </p>
          <Button kind="primary" type="submit" busy={!!busy} disabled={isBlank(draft) || over || Object.keys(bad).length > 0}>
            {busy || "Start the job"}
            {!busy && (
              <span className="no-phone">
                {" "}
                <Kbd>Ctrl</Kbd> <Kbd>&crarr;</Kbd>
              </span>
            )}
          </Button>
        </div>
      </div>
      <aside className="new-options" aria-label="Options">
        <section>
          <h2>Model</h2>
          <Field label="Provider and name" placeholder={server?.default_model || "provider:name"} value={model} onChange={(e) => setModel(e.target.value)} maxLength={200} spellCheck={false} error={fieldError("model")} hint={modelHint(server)} />
        </section>
        <section>
          <h2>Project memory</h2>
          <Field label="Name of the project" placeholder="none" value={project} onChange={(e) => setProject(e.target.value)} maxLength={64} spellCheck={false} error={fieldError("project")} hint={<>What its jobs learn is noted for the next one of the same name. <a href={href.projects}>See it</a></>} />
        </section>
        <section>
          <h2>Network</h2>
          <Segmented
            label="What the sandbox may reach"
            value={mode || "default"}
            choices={[
              { value: "default", label: "Packages" },
              { value: "extend", label: "More" },
              { value: "only", label: "Only" },
              { value: "none", label: "None" },
            ]}
            onChange={(v) => setMode(v === "default" ? "" : v)}
          />
          <p className="note">{modeNote[mode]}</p>
          {(mode === "only" || mode === "extend") && (
            <div className="field">
              <label htmlFor="allow">Hosts</label>
              <textarea id="allow" className="mono" rows={3} placeholder={"api.example.org\n.example.com:8443"} value={allow} onChange={(e) => setAllow(e.target.value)} spellCheck={false} />
              <p className="note">One a line. A dot in front stands for all names below.</p>
            </div>
          )}
          {(fieldError("egress") || fieldError("egress.allow") || fieldError("egress.mode")) && <Notice tone="bad">{message(error)}</Notice>}
        </section>
        <section>
          <h2>Limits</h2>
          <div className="limit-grid">
            {limitForms.map((f) => (
              <Field
                key={f.name}
                label={f.label}
                unit={f.unit}
                inputMode="decimal"
                placeholder={showLimit(f, server?.default_limits[f.name]) || "none"}
                value={typed[f.name] ?? ""}
                onChange={(e) => setTyped({ ...typed, [f.name]: e.target.value })}
                error={bad[f.name] || fieldError(`limits.${f.name}`)}
                maxLength={20}
              />
            ))}
          </div>
          <p className="note">What is left empty has the server&rsquo;s default. Cost, tokens, steps and work time can be raised later.</p>
        </section>
      </aside>
    </form>
  );
}

function modelHint(server: ServerSettings | null): string {
  if (!server) return "";
  if (server.default_model) return "Left empty: the server\u2019s default.";
  return server.needs_model ? "The server has no default: name one, such as anthropic:NAME, openai:NAME, gemini:NAME, chat:NAME or replay:FILE." : "Left empty: that of the worker which runs the job.";
}

const modeNote: Record<EgressMode, string> = {
  "": "Package registries, as the server has set them.",
  extend: "Package registries, and the hosts below.",
  only: "The hosts below, and nothing else.",
  none: "No connection leaves the sandbox.",
};

// Not crypto.randomUUID: that is missing where the page came over plain HTTP.
function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

async function archiveOf(a: Attachment, max: number, say: (s: string) => void): Promise<Packed | null> {
  if (a.kind !== "files" || a.files.length === 0) return null;
  const only = a.files[0] as Picked;
  if (a.files.length === 1 && isArchive(only.path)) {
    if (only.file.size > max) throw new Error(`The archive has ${bytes(only.file.size)}; the server takes ${bytes(max)}.`);
    return { blob: only.file, files: 1 };
  }
  const { pack } = await import("../model/pack");
  const packed = await pack(a.files, max, (done) => done % 50 === 0 && say(`Packing ${done} of ${a.files.length}`));
  toast(`Packed ${packed.files} files into ${bytes(packed.blob.size)}`);
  return packed;
}

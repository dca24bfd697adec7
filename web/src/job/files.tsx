// The project's files: a tree, a viewer, and the diff against the start.
import { useEffect, useMemo, useState } from "react";
import { ApiError, message } from "../api/http";
import { getDiff } from "../api/history";
import { listDir } from "../api/jobs";
import type { DirEntry } from "../api/types";
import { plain } from "../model/ansi";
import type { FileDiff } from "../model/diff";
import { bytes } from "../model/format";
import { setQuery, usePlace } from "../router";
import { Button, Empty, IconButton, Loading, Notice, Segmented } from "../ui/controls";
import { Icon } from "../ui/icons";
import { DiffHunks, DiffStat } from "../ui/rich";
import { toast } from "../ui/toast";
import { FileView } from "./fileview";
import { useJob } from "./context";

export function Files() {
  const { query } = usePlace();
  const mode = query.get("view") === "diff" ? "diff" : "tree";
  const { view } = useJob();
  if (!view.sandbox && !view.artifact) return <Empty icon="folder" title="There are no files yet" />;
  return (
    <div className="files">
      <div className="screen-bar">
        <Segmented
          label="Show"
          value={mode}
          choices={[
            { value: "tree", label: "All files" },
            { value: "diff", label: "Changes since the start" },
          ]}
          onChange={(v) => setQuery({ view: v === "diff" ? "diff" : null })}
        />
      </div>
      {mode === "diff" ? <Changes /> : <Browser />}
    </div>
  );
}

function Browser() {
  const { query } = usePlace();
  const path = query.get("path") ?? "";
  const { step } = useJob();
  return (
    <div className={`file-browser ${path ? "has-file" : ""}`}>
      <nav className="tree" aria-label="Files" data-keys="tree">
        <Dir key={step ?? "now"} path="" depth={0} open={path} />
      </nav>
      <div className="file-pane">{path ? <FileView key={`${path}@${step ?? ""}`} path={path} onClose={() => setQuery({ path: null })} /> : <Empty icon="file" title="Choose a file" />}</div>
    </div>
  );
}

/** The entries of a directory, read when it is unfolded. */
function Dir({ path, depth, open }: { path: string; depth: number; open: string }) {
  const { id, step, view } = useJob();
  const [entries, setEntries] = useState<DirEntry[] | null>(null);
  const [more, setMore] = useState(false);
  const [error, setError] = useState("");
  const state = view.status === "running" ? view.step : view.status; // read again when a step is done
  useEffect(() => {
    const abort = new AbortController();
    listDir(id, path, step ?? undefined, abort.signal).then(
      (l) => {
        setEntries(sorted(l.entries ?? []));
        setMore(l.more ?? false);
        setError("");
      },
      (err) => !abort.signal.aborted && setError(message(err)),
    );
    return () => abort.abort();
  }, [id, path, step, state]);
  if (error && !entries) return <p className="note bad tree-note">{error}</p>;
  if (!entries) return depth === 0 ? <Loading /> : <p className="muted tree-note">&hellip;</p>;
  if (entries.length === 0) return <p className="muted tree-note">{depth === 0 ? "The workspace is empty." : "empty"}</p>;
  return (
    <ul role={depth === 0 ? "tree" : "group"} aria-label={depth === 0 ? "Files of the project" : undefined} onKeyDown={depth === 0 ? treeKeys : undefined}>
      {entries.map((e) => (
        <Entry key={e.name} entry={e} path={path ? `${path}/${e.name}` : e.name} depth={depth} open={open} />
      ))}
      {more && <li className="muted tree-note">and more than are listed</li>}
    </ul>
  );
}

const sorted = (l: DirEntry[]): DirEntry[] => [...l].sort((a, b) => Number(b.type === "dir") - Number(a.type === "dir") || a.name.localeCompare(b.name));

/** Arrow keys move through what is visible of the tree. */
function treeKeys(e: React.KeyboardEvent<HTMLUListElement>): void {
  const all = [...e.currentTarget.querySelectorAll<HTMLElement>("[role=treeitem] > .tree-row")];
  const at = all.indexOf(document.activeElement as HTMLElement);
  if (at < 0) return;
  const item = all[at]!.parentElement!;
  const expanded = item.getAttribute("aria-expanded");
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[e.key];
  if (to !== undefined) all[Math.max(0, Math.min(all.length - 1, to))]!.focus();
  else if (e.key === "ArrowRight" && expanded === "false") all[at]!.click();
  else if (e.key === "ArrowLeft" && expanded === "true") all[at]!.click();
  else if (e.key === "ArrowLeft") item.parentElement?.closest("[role=treeitem]")?.querySelector<HTMLElement>(".tree-row")?.focus();
  else return;
  e.preventDefault();
}

function Entry({ entry, path, depth, open }: { entry: DirEntry; path: string; depth: number; open: string }) {
  const heavy = entry.name === "node_modules" || entry.name === ".git";
  const [unfolded, setUnfolded] = useState(entry.type === "dir" && (open.startsWith(path + "/") || (depth === 0 && entry.name === "src" && !heavy)));
  const dir = entry.type === "dir";
  const file = entry.type === "file";
  return (
    <li role="treeitem" aria-expanded={dir ? unfolded : undefined} aria-selected={open === path} aria-level={depth + 1}>
      <button type="button" className="tree-row" ref={(el) => el?.style.setProperty("--depth", String(depth))} disabled={!dir && !file} onClick={() => (dir ? setUnfolded(!unfolded) : setQuery({ path }))}>
        {dir ? <Icon name="chevron" /> : <span className="icon" />}
        <Icon name={dir ? "folder" : "file"} />
        <span className="tree-name">{plain(entry.name)}</span>
        {file && <span className="tree-size">{bytes(entry.size ?? 0)}</span>}
        {!dir && !file && <span className="tree-size">{entry.type === "symlink" ? "link" : "special"}</span>}
      </button>
      {dir && unfolded && <Dir path={path} depth={depth + 1} open={open} />}
    </li>
  );
}

/** What differs between the start and the step that is looked at. */
function Changes() {
  const { id, step, view, history } = useJob();
  const [diffs, setDiffs] = useState<FileDiff[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [more, setMore] = useState(false);
  const at = step ?? (view.status === "running" ? view.step : undefined);
  useEffect(() => {
    const abort = new AbortController();
    getDiff(id, step ?? undefined, undefined, abort.signal).then(
      (d) => {
        setDiffs(d.files);
        setMore(d.more);
        setError(null);
      },
      (err) => !abort.signal.aborted && setError(err),
    );
    return () => abort.abort();
  }, [id, step, at]);
  const listed = useMemo(() => history.changedFiles(step ?? Infinity), [history, step, history.changes.length]);
  if (error instanceof ApiError && !diffs) {
    // Without the diff itself, the log still says which files changed.
    return (
      <div className="changes">
        <Notice tone="warn">{message(error)}</Notice>
        <ul className="change-list">
          {listed.map((f) => (
            <li key={f.path}>
              <button type="button" className="link" onClick={() => setQuery({ view: null, path: f.path })}>
                {plain(f.path)}
              </button>
              <DiffStat added={f.added} deleted={f.deleted} />
            </li>
          ))}
        </ul>
      </div>
    );
  }
  if (!diffs) return <Loading />;
  if (diffs.length === 0) return <Empty icon="file" title="Nothing has changed since the start" />;
  return (
    <div className="changes">
      <p className="muted">
        {diffs.length} {diffs.length === 1 ? "file" : "files"} <DiffStat added={sum(diffs, "added")} deleted={sum(diffs, "deleted")} />
        {more && ", and more than are shown"}
      </p>
      {diffs.map((d) => (
        <FileChangeView key={d.path} diff={d} />
      ))}
    </div>
  );
}

const sum = (l: FileDiff[], k: "added" | "deleted"): number => l.reduce((n, d) => n + Math.max(0, d[k]), 0);
const generated = /(^|\/)(package-lock\.json|yarn\.lock|pnpm-lock\.yaml|go\.sum|Cargo\.lock|poetry\.lock|uv\.lock)$|(^|\/)dist\/|\.min\.(js|css)$/;

function FileChangeView({ diff: given }: { diff: FileDiff }) {
  const { id, step } = useJob();
  const [diff, setDiff] = useState(given);
  const [busy, setBusy] = useState(false);
  useEffect(() => setDiff(given), [given]);
  const whole = async () => {
    setBusy(true);
    try {
      const alone = (await getDiff(id, step ?? undefined, given.path)).files[0];
      if (alone) setDiff(alone);
    } catch (err) {
      toast(message(err), "bad");
    }
    setBusy(false);
  };
  const [open, setOpen] = useState(!generated.test(diff.path) && diff.added + diff.deleted < 300);
  return (
    <section className="change">
      <header>
        <button type="button" className="change-head" aria-expanded={open} onClick={() => setOpen(!open)}>
          <Icon name="chevron" />
          <code>{plain(diff.path)}</code>
          {diff.state !== "modified" && <span className="pill">{diff.from ? `from ${plain(diff.from)}` : diff.state}</span>}
          <DiffStat added={diff.binary ? -1 : diff.added} deleted={diff.deleted} />
        </button>
        {diff.state !== "deleted" && <IconButton icon="expand" label={`Open ${plain(diff.path)}`} onClick={() => setQuery({ view: null, path: diff.path })} />}
      </header>
      {open && (diff.large ? <p className="diff-note">Too large to be compared.</p> : diff.cut && diff.hunks.length === 0 ? null : <DiffHunks diff={diff} />)}
      {open && diff.cut && (
        <Button kind="quiet" small busy={busy} onClick={() => void whole()}>
          Show more of this file
        </Button>
      )}
    </section>
  );
}


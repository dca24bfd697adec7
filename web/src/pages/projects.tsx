// What is kept of projects from one job to the next.
import { useCallback, useEffect, useState } from "react";
import { ApiError, message } from "../api/http";
import { deleteProject, deleteProjectFile, getProject, getProjectFile, listProjects, putProjectFile, switchProject, type Project } from "../api/projects";
import { ago, bytes, plural } from "../model/format";
import { plain } from "../model/ansi";
import { go, href } from "../router";
import { Button, Empty, Field, Loading, Notice } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { toast } from "../ui/toast";

const maxFile = 32 << 10; // bytes; the server's bound

export default function ProjectsPage({ name }: { name?: string }) {
  return name === undefined ? <List /> : <One key={name} name={name} />;
}

function List() {
  const [projects, setProjects] = useState<Project[] | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const abort = new AbortController();
    listProjects(abort.signal).then(setProjects, (err) => !abort.signal.aborted && setError(message(err)));
    return () => abort.abort();
  }, []);
  const now = Date.now();
  return (
    <div className="projects">
      <div className="page-head">
        <h1>Project memory</h1>
      </div>
      <p className="lead">A job that names a project begins with what earlier jobs of it noted, and adds to that when it ends: conventions, commands that work, mistakes not to repeat. They are files; read, change or remove them as you like.</p>
      {error && <Notice tone="bad">{error}</Notice>}
      {!projects && !error && <Loading />}
      {projects?.length === 0 && (
        <Empty icon="folder" title="No project has a memory yet">
          <p>Name a project when you start a job.</p>
          <a className="button plain" href={href.create}>
            New job
          </a>
        </Empty>
      )}
      {projects && projects.length > 0 && (
        <ul className="job-list" aria-label="Projects">
          {projects.map((p) => (
            <li key={p.project}>
              <a className="job-row project-row" href={href.project(p.project)}>
                <Icon name="folder" />
                <span className="job-main">
                  <span className="job-title">{plain(p.project)}</span>
                  <span className="job-sub">{plural(p.files?.length ?? 0, "file")}</span>
                </span>
                <span className="project-end">
                  {!p.memory && <span className="pill">off</span>}
                  <span className="job-age small">{ago(p.updated_at, now)}</span>
                </span>
              </a>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function One({ name }: { name: string }) {
  const [project, setProject] = useState<Project | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [added, setAdded] = useState("");
  const [typed, setTyped] = useState("");
  const [forget, setForget] = useState(false);
  const load = useCallback(async (signal?: AbortSignal) => {
    try {
      setProject(await getProject(name, signal));
      setError(null);
    } catch (err) {
      if (!signal?.aborted) setError(err);
    }
  }, [name]);
  useEffect(() => {
    const abort = new AbortController();
    void load(abort.signal);
    return () => abort.abort();
  }, [load]);
  useEffect(() => {
    document.title = `${name} \u2013 Glovebox`;
  }, [name]);
  if (error instanceof ApiError && error.status === 404)
    return (
      <div className="projects">
        <Empty icon="folder" title="Nothing is kept of this project">
          <p>Its first job that ends well notes what it learned.</p>
          <a className="button plain" href={href.projects}>
            All projects
          </a>
        </Empty>
      </div>
    );
  const toggle = async () => {
    if (!project) return;
    try {
      setProject(await switchProject(name, !project.memory));
    } catch (err) {
      toast(message(err), "bad");
    }
  };
  const files = project?.files ?? [];
  const shown = added && !files.some((f) => f.name === added) ? [...files, { name: added, size: 0, updated_at: "" }] : files;
  return (
    <div className="projects">
      <p>
        <a href={href.projects}>Project memory</a>
      </p>
      <div className="page-head">
        <h1>{plain(name)}</h1>
        {project && (
          <Button kind="quiet" small icon="trash" onClick={() => setForget(true)}>
            Forget all of it
          </Button>
        )}
      </div>
      {error !== null && <Notice tone="bad">{message(error)}</Notice>}
      {!project && error === null && <Loading />}
      {project && (
        <>
          <label className="check">
            <input type="checkbox" checked={project.memory} onChange={() => void toggle()} />
            <span>
              Jobs of this project read and write its memory
              <span className="note">{project.memory ? "They begin with these files." : "It is off: the files are kept, and no job sees or changes them."}</span>
            </span>
          </label>
          {shown.length === 0 && <p className="muted">There is no file yet.</p>}
          {shown.map((f) => (
            <FileEditor key={f.name} project={name} file={f.name} size={f.size} fresh={f.name === added && f.updated_at === ""} onChange={() => void load()} />
          ))}
          <form
            className="add-file"
            onSubmit={(e) => {
              e.preventDefault();
              setAdded(typed.trim());
              setTyped("");
            }}
          >
            <Field label="Another file" placeholder="notes.md" value={typed} maxLength={64} spellCheck={false} onChange={(e) => setTyped(e.target.value)} />
            <Button type="submit" icon="plus" disabled={!typed.trim()}>
              Add
            </Button>
          </form>
        </>
      )}
      {forget && <ForgetDialog name={name} onClose={() => setForget(false)} />}
    </div>
  );
}

function FileEditor({ project, file, size, fresh, onChange }: { project: string; file: string; size: number; fresh: boolean; onChange: () => void }) {
  const [open, setOpen] = useState(fresh);
  const [saved, setSaved] = useState<string | null>(fresh ? "" : null);
  const [text, setText] = useState("");
  const [tag, setTag] = useState(""); // of what was read
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    if (!open || saved !== null) return;
    const abort = new AbortController();
    getProjectFile(project, file, abort.signal).then(
      (f) => {
        setSaved(f.text);
        setText(f.text);
        setTag(f.tag);
      },
      (err) => !abort.signal.aborted && setError(message(err)),
    );
    return () => abort.abort();
  }, [open, saved, project, file]);
  const run = async (what: () => Promise<unknown>, said: string) => {
    setBusy(true);
    setError("");
    try {
      await what();
      toast(said);
      onChange();
      return true;
    } catch (err) {
      setError(message(err));
      return false;
    } finally {
      setBusy(false);
    }
  };
  const save = async () => {
    await putProjectFile(project, file, text, fresh ? "" : tag);
    const now = await getProjectFile(project, file); // another may have written since
    setSaved(now.text);
    setText(now.text);
    setTag(now.tag);
  };
  const length = new TextEncoder().encode(text).length;
  return (
    <section className={`project-file ${open ? "open" : ""}`}>
      <button type="button" className="fold-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="chevron" />
        <code className="fold-kind">{plain(file)}</code>
        <span className="tree-size">{size > 0 && bytes(size)}</span>
      </button>
      {open && (
        <div className="project-file-body">
          {saved === null && !error && <Loading />}
          {saved !== null && <textarea aria-label={`Text of ${plain(file)}`} className="mono" rows={Math.min(22, Math.max(6, text.split("\n").length + 1))} value={text} spellCheck={false} onChange={(e) => setText(e.target.value)} />}
          {length > maxFile && <Notice tone="warn">{`${bytes(length)}: a file has at most ${bytes(maxFile)}. Every job of the project reads it: keep what matters to all of them.`}</Notice>}
          {error && <Notice tone="bad">{error}</Notice>}
          <div className="project-file-actions">
            <Button small kind="danger" busy={busy} onClick={() => void run(() => (fresh ? Promise.resolve() : deleteProjectFile(project, file)), "The file is removed").then((ok) => ok && setOpen(false))}>
              Remove
            </Button>
            <Button
              small
              kind="primary"
              busy={busy}
              disabled={saved === null || (text === saved && !fresh) || length > maxFile}
              onClick={() => void run(save, "Saved")}
            >
              Save
            </Button>
          </div>
        </div>
      )}
    </section>
  );
}

function ForgetDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      await deleteProject(name);
      toast("It is forgotten");
      go(href.projects);
    } catch (err) {
      toast(message(err), "bad");
      setBusy(false);
    }
  };
  return (
    <Dialog
      title="Forget what is known of the project?"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button kind="danger" busy={busy} onClick={() => void run()}>
            Forget it for good
          </Button>
        </>
      }
    >
      <p>Its files are removed. Jobs that have begun with them keep what they read; the next one begins with nothing.</p>
    </Dialog>
  );
}

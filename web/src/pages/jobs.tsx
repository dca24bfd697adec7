// The list of jobs: live, searchable, usable from the keyboard.
import { useCallback, useEffect, useRef, useState } from "react";
import { message } from "../api/http";
import { listJobs } from "../api/jobs";
import type { JobView, Status } from "../api/types";
import { ago, clock, count, dollars, title } from "../model/format";
import { go, href, setQuery, usePlace } from "../router";
import { Button, Empty, Notice, Segmented, Spinner } from "../ui/controls";
import { Icon } from "../ui/icons";
import { useShortcut } from "../ui/shortcuts";
import { phaseWord, StatusBadge, useNow, workMs } from "../ui/status";

type Filter = "all" | "active" | "complete" | "error" | "cancelled";

const filters: { value: Filter; label: string }[] = [
  { value: "all", label: "All" },
  { value: "active", label: "Active" },
  { value: "complete", label: "Complete" },
  { value: "error", label: "Failed" },
  { value: "cancelled", label: "Cancelled" },
];
const statuses: Record<Filter, Status[]> = { all: [], active: ["pending", "running"], complete: ["complete"], error: ["error"], cancelled: ["cancelled"] };

interface Loaded {
  jobs: JobView[];
  cursor: string;
  at: number;
}

/** Jobs of a filter, read again as often as something is likely to have changed. */
function useJobs(filter: Filter, q: string) {
  const [data, setData] = useState<Loaded | null>(null);
  const [error, setError] = useState("");
  const [more, setMore] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const load = async () => {
      let wait = 8000;
      try {
        const page = await listJobs({ status: statuses[filter], q, limit: 50 }, abort.signal);
        const jobs = page.jobs ?? [];
        if (jobs.some((j) => j.status === "running" || j.status === "pending")) wait = 2000;
        setData((old) => {
          // Pages that were loaded below the first stay.
          const seen = new Set(jobs.map((j) => j.job_id));
          const last = jobs.at(-1)?.job_id ?? "";
          const below = old && old.jobs.length > jobs.length ? old.jobs.filter((j) => !seen.has(j.job_id) && j.job_id < last) : [];
          return { jobs: [...jobs, ...below], cursor: below.length > 0 ? old!.cursor : (page.cursor ?? ""), at: Date.now() };
        });
        setError("");
      } catch (err) {
        if (abort.signal.aborted) return;
        setError(message(err));
      }
      if (!abort.signal.aborted) timer = setTimeout(load, document.hidden ? 15_000 : wait);
    };
    void load();
    const wake = () => {
      if (!document.hidden) {
        clearTimeout(timer);
        void load();
      }
    };
    document.addEventListener("visibilitychange", wake);
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", wake);
    };
  }, [filter, q]);
  const loadMore = useCallback(async () => {
    if (!data?.cursor) return;
    setMore(true);
    try {
      const page = await listJobs({ status: statuses[filter], q, cursor: data.cursor, limit: 50 });
      setData((old) => old && { ...old, jobs: [...old.jobs, ...(page.jobs ?? [])], cursor: page.cursor ?? "" });
    } catch (err) {
      setError(message(err));
    }
    setMore(false);
  }, [data?.cursor, filter, q]);
  return { data, error, more, loadMore };
}

export function JobsPage() {
  const { query } = usePlace();
  const filter = (filters.find((f) => f.value === query.get("show"))?.value ?? "all") as Filter;
  const q = query.get("q") ?? "";
  const [typed, setTyped] = useState(q);
  const { data, error, more, loadMore } = useJobs(filter, q);
  const [at, setAt] = useState(-1);
  const search = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLUListElement>(null);

  useEffect(() => {
    const t = setTimeout(() => typed !== q && setQuery({ q: typed || null }), 200);
    return () => clearTimeout(t);
  }, [typed, q]);
  const move = (by: number) => {
    const links = list.current?.querySelectorAll<HTMLAnchorElement>("a.job-row");
    if (!links?.length) return;
    const to = Math.max(0, Math.min(links.length - 1, at + by));
    setAt(to);
    links[to]?.focus();
  };
  useShortcut("/", "Search", "Jobs", () => search.current?.focus());
  useShortcut("j", "Next job", "Jobs", () => move(1));
  useShortcut("k", "Previous job", "Jobs", () => move(-1));

  const jobs = data?.jobs ?? [];
  const running = jobs.some((j) => j.status === "running");
  const now = useNow(running);
  return (
    <div className="jobs">
      <div className="page-head">
        <h1>Jobs</h1>
        <Button kind="primary" icon="plus" onClick={() => go(href.create)}>
          New job
        </Button>
      </div>
      <div className="toolbar">
        <div className="search">
          <Icon name="search" />
          <input
            ref={search}
            type="search"
            aria-label="Search in tasks"
            placeholder="Search in tasks"
            maxLength={400}
            value={typed}
            onChange={(e) => setTyped(e.target.value)}
            onKeyDown={(e) => {
              if (e.key === "Escape") e.currentTarget.blur();
              if (e.key === "ArrowDown") move(1);
            }}
          />
        </div>
        <Segmented label="Show" value={filter} choices={filters} onChange={(v) => setQuery({ show: v === "all" ? null : v })} />
      </div>
      {error && <Notice tone="bad">{error}</Notice>}
      {!data && !error && (
        <div className="loading">
          <Spinner />
        </div>
      )}
      {data && jobs.length === 0 && <Nothing filtered={filter !== "all" || q !== ""} />}
      {jobs.length > 0 && (
        <ul className="job-list" ref={list} aria-label="Jobs, newest first">
          {jobs.map((j, i) => (
            <li key={j.job_id}>
              <JobRow job={j} now={now} at={data!.at} onFocus={() => setAt(i)} />
            </li>
          ))}
        </ul>
      )}
      {data?.cursor && (
        <Button className="load-more" busy={more} onClick={() => void loadMore()}>
          Older jobs
        </Button>
      )}
    </div>
  );
}

function JobRow({ job, now, at, onFocus }: { job: JobView; now: number; at: number; onFocus: () => void }) {
  const plan = job.plan ?? [];
  const done = plan.filter((s) => s.status === "done").length;
  const cost = job.usage.cost_micros > 0 ? dollars(job.usage.cost_micros) : `${count(job.usage.tokens)} tokens`;
  return (
    <a className="job-row" href={href.job(job.job_id)} onFocus={onFocus}>
      <StatusBadge job={job} />
      <span className="job-main">
        <span className="job-title">{title(job.task)}</span>
        <span className="job-sub">{subline(job, done, plan.length)}</span>
      </span>
      <span className="job-figures">
        <span className="job-time">
          <span className="visually-hidden">Time worked: </span>
          {clock(workMs(job, at, now))}
        </span>
        <span className="job-cost">{cost}</span>
        <span className="job-age">{ago(job.created_at, now)}</span>
      </span>
    </a>
  );
}

function subline(job: JobView, done: number, planned: number): string {
  if (job.status === "pending") return job.queue_position ? `Number ${job.queue_position} in the queue` : "In the queue";
  if (job.status === "error") return job.error?.message ?? "It ended in an error.";
  if (job.status === "cancelled") return "Someone ended it";
  if (job.status === "complete") return job.summary ?? "";
  if (job.phase === "waiting" && job.question) return job.question;
  const active = (job.plan ?? []).find((s) => s.status === "active")?.text;
  if (job.phase !== "working") return phaseWord(job.phase).replace(/^./, (c) => c.toUpperCase());
  return planned > 0 ? `${done} of ${planned}${active ? ` \u00b7 ${active}` : ""}` : `Step ${job.step}`;
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty icon="search" title="No job matches" />;
  return (
    <Empty icon="flag" title="No jobs yet">
      <p>Describe something to build. An agent works on it in a machine of its own; you watch, step in, and download the result.</p>
      <Button kind="primary" icon="plus" onClick={() => go(href.create)}>
        Start the first job
      </Button>
    </Empty>
  );
}

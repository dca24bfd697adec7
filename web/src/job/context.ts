// One job as its page knows it: the view that the server computes, the history
// that the page folds from the events, and the step that is looked at.
import { createContext, useCallback, useContext, useEffect, useMemo, useState } from "react";
import { follow, type Connection } from "../api/events";
import { ApiError, isRefusal, jobLink, message, session } from "../api/http";
import { getJob } from "../api/jobs";
import type { JobEvent, JobView } from "../api/types";
import { History } from "../model/history";

export interface JobState {
  id: string;
  view: JobView;
  fetchedAt: number; // when view came, by this clock
  history: History;
  version: number; // of history
  connection: Connection;
  ended: boolean; // the job is terminal
  step: number | null; // the step that is looked at; null: now
  setStep: (step: number | null) => void;
  setView: (v: JobView) => void;
}

export const JobContext = createContext<JobState | null>(null);

export function useJob(): JobState {
  const job = useContext(JobContext);
  if (!job) throw new Error("no job");
  return job;
}

/** Whether the page got in by a link, which lets it watch: what changes the job is not offered. */
export function useReadOnly(): boolean {
  const { id } = useJob();
  return !session.token && jobLink.get(id) !== undefined;
}

/** Whether the page may take over, open terminals and previews: not with a link to watch. */
export function useMayControl(): boolean {
  const { id } = useJob();
  return !useReadOnly() || !!jobLink.get(id)?.control;
}

const flushMs = 80; // events that come within this time are shown together
const retryMs = 2000; // until a job is asked for again that could not be had

/** Follows the events of a job. */
function useHistory(id: string) {
  const history = useMemo(() => new History(), [id]);
  const [version, setVersion] = useState(0);
  const [connection, setConnection] = useState<Connection>("connecting");
  const [round, setRound] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    let waiting: JobEvent[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      timer = undefined;
      history.append(waiting);
      waiting = [];
      setVersion(history.version);
    };
    void follow(
      id,
      history.lastSeq,
      {
        onEvents(events) {
          for (const e of events) waiting.push(e);
          timer ??= setTimeout(flush, flushMs);
        },
        onConnection(c) {
          // The end is known no sooner than the events before it: a job that had
          // ended without them would be taken for one that goes on.
          if (c === "ended" && timer !== undefined) {
            clearTimeout(timer);
            flush();
          }
          setConnection(c);
        },
      },
      abort.signal,
    );
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [id, history, round]);
  const again = useCallback(() => setRound((r) => r + 1), []);
  return { history, version, connection, again };
}

export interface Loaded {
  state: JobState | null;
  error: string;
  missing: boolean;
}

/** Loads a job and keeps it current. */
export function useLoadedJob(id: string): Loaded {
  const { history, version, connection, again } = useHistory(id);
  const [fetched, setFetched] = useState<{ view: JobView; at: number } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [step, setStep] = useState<number | null>(null);
  // An answer that was on its way while a newer one came changes nothing.
  const setView = useCallback((view: JobView) => setFetched((old) => (old && old.view.seq > view.seq ? old : { view, at: Date.now() })), []);

  const [loads, setLoads] = useState({ ended: 0, next: "" as "" | "retry" | "never" });
  const seq = history.lastSeq;
  const known = fetched?.view.seq ?? -1;
  const terminal = !!fetched && ["complete", "error", "cancelled"].includes(fetched.view.status);
  useEffect(() => {
    const abort = new AbortController();
    const load = async () => {
      let next: typeof loads.next = "";
      try {
        setView(await getJob(id, abort.signal));
        setError(null);
      } catch (err) {
        if (abort.signal.aborted) return;
        setError(err);
        next = isRefusal(err) ? "never" : "retry";
      }
      setLoads((l) => ({ ended: l.ended + 1, next }));
    };
    // At once for the first time, soon when there are new events or the server
    // was not there, and now and then while a job waits: its place in the queue
    // is no event.
    if (loads.next === "never" || (terminal && seq <= known)) return;
    const wait = loads.next === "retry" ? retryMs : known < 0 ? 0 : seq > known ? 700 : 10_000;
    const timer = setTimeout(() => void load(), wait);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [id, seq > known, known, terminal, loads, setView]);

  // A job that had ended goes on when its limits are raised.
  const ended = terminal && connection === "ended";
  const resumed = !terminal && connection === "ended" && known >= seq;
  useEffect(() => {
    if (resumed) again();
  }, [resumed, again]);

  const state = useMemo<JobState | null>(
    () => (fetched ? { id, view: fetched.view, fetchedAt: fetched.at, history, version, connection, ended: ended || terminal, step, setStep, setView } : null),
    [id, fetched, history, version, connection, ended, terminal, step, setView],
  );
  return { state, error: error ? message(error) : "", missing: error instanceof ApiError && error.status === 404 };
}

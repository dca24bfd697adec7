// A job: what happens at the left, the machine and its traces at the right.
import { useEffect, useState } from "react";
import { JobContext, useLoadedJob, type JobState } from "../job/context";
import { Composer } from "../job/composer";
import { JobHeader } from "../job/header";
import { Plan } from "../job/plan";
import { Side, useSideTabs } from "../job/side";
import { Scrubber } from "../job/scrubber";
import { Timeline } from "../job/timeline";
import { href, setQuery, usePlace } from "../router";
import { Empty, Loading, Notice } from "../ui/controls";
import { Splitter, usePaneWidth } from "../ui/splitter";
import { useShortcut } from "../ui/shortcuts";
import { announce } from "../ui/toast";
import { statusWord, phaseWord } from "../ui/status";
import { title } from "../model/format";

export default function JobPage({ id }: { id: string }) {
  const { state, error, missing } = useLoadedJob(id);
  if (missing)
    return (
      <Empty icon="question" title="There is no such job">
        <p>It may have been deleted, or belong to someone else.</p>
        <a className="button plain" href={href.jobs}>
          All jobs
        </a>
      </Empty>
    );
  if (!state) return error ? <Notice tone="bad">{error}</Notice> : <Loading />;
  return (
    <JobContext value={state}>
      <Workspace state={state} error={error} />
    </JobContext>
  );
}

/** Whether the window is too narrow for two panes. */
function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(() => matchMedia("(max-width: 900px)").matches);
  useEffect(() => {
    const m = matchMedia("(max-width: 900px)");
    const change = () => setNarrow(m.matches);
    m.addEventListener("change", change);
    return () => m.removeEventListener("change", change);
  }, []);
  return narrow;
}

function Workspace({ state, error }: { state: JobState; error: string }) {
  const { view, history, setStep, step } = state;
  const narrow = useNarrow();
  const { query } = usePlace();
  const tabs = useSideTabs(narrow);
  const wanted = query.get("tab") ?? "";
  const fallback = narrow ? (view.status === "complete" ? "result" : "activity") : view.artifact || view.status === "complete" || view.error ? "result" : "screen";
  const tab = tabs.some((t) => t.id === wanted) ? wanted : tabs.some((t) => t.id === fallback) ? fallback : tabs[0]!.id;
  const setTab = (t: string) => setQuery({ tab: t });
  const [width, setWidth] = usePaneWidth("glovebox.split", 0.5);

  useEffect(() => {
    document.title = `${view.phase === "waiting" ? "\u25cf " : ""}${title(view.task).slice(0, 60)} \u2013 Glovebox`;
  }, [view.task, view.phase]);
  useEffect(() => announce(`${statusWord(view.status)}, ${phaseWord(view.phase)}`), [view.status, view.phase]);
  const last = history.steps.at(-1)?.step ?? 0;
  useShortcut("[", "One step back in time", "Job", () => setStep(Math.max(1, (step ?? last + 1) - 1)), last > 0);
  useShortcut("]", "One step on", "Job", () => setStep(step === null || step >= last ? null : step + 1), last > 0);
  useShortcut("Escape", "Back to now", "Job", () => setStep(null), step !== null);
  for (let i = 0; i < 9; i++) {
    const t = tabs[i];
    // The number of hooks is the same each time; those without a tab are off.
    // eslint-disable-next-line react-hooks/rules-of-hooks
    useShortcut(String(i + 1), t ? t.label : "", "Job", () => t && setTab(t.id), !!t);
  }

  const activity = (
    <div className="activity">
      <Plan />
      <Timeline key={state.id} />
      <Composer />
    </div>
  );
  return (
    <div className={`job ${step !== null ? "in-past" : ""}`}>
      <JobHeader error={error} onRaise={() => setTab("usage")} />
      {narrow ? (
        <div className="job-body narrow">
          <Side tabs={tabs} tab={tab} setTab={setTab} activity={activity} />
        </div>
      ) : (
        <div className="job-body" data-split>
          <div className="pane" ref={(el) => el?.style.setProperty("--part", String(width))}>
            {activity}
          </div>
          <Splitter value={width} onChange={setWidth} />
          <div className="pane side-pane">
            <Side tabs={tabs} tab={tab} setTab={setTab} />
          </div>
        </div>
      )}
      <Scrubber />
    </div>
  );
}

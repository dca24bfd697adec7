import { useEffect, useState } from "react";
import { timeOfDay } from "../model/format";
import { Button, IconButton } from "../ui/controls";
import { useJob } from "./context";

/** Slides through the steps of a job; everything else shows that step. */
export function Scrubber() {
  const { history, step, setStep, ended, view } = useJob();
  const [playing, setPlaying] = useState(false);
  const steps = history.steps;
  const last = steps.at(-1)?.step ?? 0;
  const at = step ?? last;
  useEffect(() => {
    if (!playing) return;
    const t = setInterval(() => {
      const next = (step ?? 0) + 1;
      if (next > last) {
        setPlaying(false);
        setStep(null);
      } else setStep(next);
    }, 1400);
    return () => clearInterval(t);
  }, [playing, step, last, setStep]);
  if (last < 1) return null;
  const mark = steps.find((s) => s.step === at);
  const plan = history.planAt(at);
  const active = plan.find((s) => s.status === "active")?.text ?? (plan.length > 0 && plan.every((s) => s.status === "done") ? "All of the plan is done" : "");
  return (
    <section className="scrubber" aria-label="Recording">
      <IconButton
        icon={playing ? "pause" : "play"}
        label={playing ? "Pause" : "Play the recording"}
        onClick={() => {
          if (!playing && (step === null || step >= last)) setStep(1);
          setPlaying(!playing);
        }}
      />
      <div className="scrub-track">
        <input
          type="range"
          min={1}
          max={last}
          step={1}
          value={at}
          data-keys="own"
          aria-label="Step"
          aria-valuetext={`Step ${at} of ${last}${active ? `: ${active}` : ""}`}
          onChange={(e) => {
            setPlaying(false);
            const v = Number(e.target.value);
            setStep(v >= last && !ended ? null : v);
          }}
        />
        <svg className="scrub-marks" viewBox="0 0 1000 4" preserveAspectRatio="none" aria-hidden="true">
          {last > 1 && history.frames.map((f) => <rect key={f.seq} x={((f.step - 1) / (last - 1)) * 1000 - 1} width="2" height="4" />)}
        </svg>
      </div>
      <span className="scrub-text">
        <strong>
          Step {at}
          <small> of {last}</small>
        </strong>
        {mark && step !== null && <span className="muted">{timeOfDay(mark.time)}</span>}
        <span className="scrub-what muted">{active}</span>
      </span>
      <Button
        small
        kind={step === null ? "quiet" : "plain"}
        disabled={step === null}
        onClick={() => {
          setPlaying(false);
          setStep(null);
        }}
      >
        {step === null ? (view.status === "running" ? "Live" : "At the end") : ended ? "To the end" : "Back to live"}
      </Button>
    </section>
  );
}

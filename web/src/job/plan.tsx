import { useState } from "react";
import { Icon } from "../ui/icons";
import { useJob } from "./context";

/** The plan, as it is now or was at the step that is looked at. */
export function Plan() {
  const { history, step, view } = useJob();
  const steps = step === null ? (history.plan.length > 0 ? history.plan : (view.plan ?? [])) : history.planAt(step);
  const [chosen, setOpen] = useState<boolean | null>(null);
  const ended = view.status === "complete" || view.status === "error" || view.status === "cancelled";
  const open = chosen ?? !ended;
  if (steps.length === 0) return null;
  const done = steps.filter((s) => s.status === "done").length;
  const active = steps.find((s) => s.status === "active");
  return (
    <section className={`plan ${open ? "open" : ""}`} aria-label="Plan">
      <button type="button" className="plan-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="chevron" />
        <strong>Plan</strong>
        <span className="plan-count">
          {done} of {steps.length}
        </span>
        <svg className="plan-bar" viewBox={`0 0 ${steps.length * 10} 4`} preserveAspectRatio="none" aria-hidden="true">
          {steps.map((s, i) => (
            <rect key={i} x={i * 10 + 0.4} width="9.2" height="4" className={s.status} />
          ))}
        </svg>
        {!open && <span className="plan-active">{active?.text ?? ""}</span>}
      </button>
      {open && (
        <ol>
          {steps.map((s, i) => (
            <li key={i} className={s.status}>
              <span className="tick" aria-hidden="true">
                {s.status === "done" && <Icon name="check" size={12} />}
              </span>
              <span>
                {s.text}
                <span className="visually-hidden">{s.status === "done" ? ", done" : s.status === "active" ? ", in work" : ", open"}</span>
              </span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

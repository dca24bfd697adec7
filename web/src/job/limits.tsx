import { useState } from "react";
import { ApiError, message } from "../api/http";
import { raiseLimits } from "../api/jobs";
import type { Limits } from "../api/types";
import { limitForms, limitText, parseLimit, showLimit, type LimitName } from "../model/limits";
import { Button, Field, Notice } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { toast } from "../ui/toast";
import { useJob } from "./context";

/** Raises the limits that can be raised while a job lives. */
export function LimitsDialog({ onClose }: { onClose: () => void }) {
  const { id, view, setView } = useJob();
  const [typed, setTyped] = useState<Partial<Record<LimitName, string>>>({});
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const soft = limitForms.filter((f) => f.soft && view.limits[f.name]);
  const hard = limitForms.filter((f) => !f.soft && view.limits[f.name]);
  const want: Partial<Limits> = {};
  const bad: Partial<Record<LimitName, string>> = {};
  for (const f of soft) {
    const v = parseLimit(f, typed[f.name] ?? "");
    if (v === null) bad[f.name] = "A number, please.";
    else if (v > 0 && v < view.limits[f.name]!) bad[f.name] = `At least ${showLimit(f, view.limits[f.name])}: it can only be raised.`;
    else if (v > 0) want[f.name] = v;
  }
  const none = Object.keys(want).length === 0;
  const send = async () => {
    setBusy(true);
    setError(null);
    try {
      setView(await raiseLimits(id, want));
      toast("The limits were raised");
      onClose();
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title="Limits"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Leave them</Button>
          <Button kind="primary" busy={busy} disabled={none || Object.keys(bad).length > 0} onClick={() => void send()}>
            {view.error?.limit ? "Raise and go on" : "Raise"}
          </Button>
        </>
      }
    >
      {view.error?.limit && (
        <Notice tone="warn">
          {view.error.message} {view.error.hint}
        </Notice>
      )}
      <form
        className="limit-grid"
        onSubmit={(e) => {
          e.preventDefault();
          if (!none) void send();
        }}
      >
        {soft.map((f) => (
          <Field key={f.name} label={f.label} unit={f.unit} inputMode="decimal" placeholder={showLimit(f, view.limits[f.name])} value={typed[f.name] ?? ""} maxLength={20} onChange={(e) => setTyped({ ...typed, [f.name]: e.target.value })} error={bad[f.name] || (error instanceof ApiError && error.field === `limits.${f.name}` ? message(error) : "")} autoFocus={view.error?.limit === f.name} />
        ))}
      </form>
      {error !== null && !(error instanceof ApiError && error.field.startsWith("limits.")) && <Notice tone="bad">{message(error)}</Notice>}
      <h3>Built into the machine</h3>
      <ul className="plain-list">
        {hard.map((f) => (
          <li key={f.name}>
            <span>{f.label}</span>
            <span>{limitText(f.name, view.limits[f.name]!)}</span>
            <small className="muted">{view.sandbox?.enforced?.[f.name] ?? ""}</small>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

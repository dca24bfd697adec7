// The small things that everything else is made of.
import { useId, type ButtonHTMLAttributes, type InputHTMLAttributes, type ReactNode } from "react";
import { Icon, type IconName } from "./icons";

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { kind?: "primary" | "plain" | "quiet" | "danger"; icon?: IconName; busy?: boolean; small?: boolean };

export function Button({ kind = "plain", icon, busy, small, children, className = "", disabled, ...rest }: ButtonProps) {
  return (
    <button type="button" {...rest} className={`button ${kind} ${small ? "small" : ""} ${className}`} disabled={disabled || busy} aria-busy={busy || undefined}>
      {busy ? <Spinner /> : icon && <Icon name={icon} />}
      {children !== undefined && <span>{children}</span>}
    </button>
  );
}

export function IconButton({ icon, label, className = "", ...rest }: ButtonHTMLAttributes<HTMLButtonElement> & { icon: IconName; label: string }) {
  return (
    <button type="button" {...rest} className={`icon-button ${className}`} aria-label={label} title={label}>
      <Icon name={icon} />
    </button>
  );
}

export function Spinner() {
  return <span className="spinner" aria-hidden="true" />;
}

export function Loading() {
  return (
    <div className="loading" role="status" aria-label="Loading">
      <Spinner />
    </div>
  );
}

/** A labelled input; hint and error are read with it. */
export function Field({ label, hint, error, unit, ...rest }: InputHTMLAttributes<HTMLInputElement> & { label: string; hint?: ReactNode; error?: string; unit?: string }) {
  const id = useId();
  const note = error || hint;
  return (
    <div className={`field ${error ? "bad" : ""}`}>
      <label htmlFor={id}>{label}</label>
      <span className="input-wrap">
        <input id={id} {...rest} aria-invalid={error ? true : undefined} aria-describedby={note ? id + "-note" : undefined} />
        {unit && <span className="unit">{unit}</span>}
      </span>
      {note && (
        <p className="note" id={id + "-note"}>
          {note}
        </p>
      )}
    </div>
  );
}

export interface Choice<T extends string> {
  value: T;
  label: string;
  count?: number;
}

/** One of a few, as radio buttons in a row. */
export function Segmented<T extends string>({ label, value, choices, onChange }: { label: string; value: T; choices: Choice<T>[]; onChange: (v: T) => void }) {
  const name = useId();
  return (
    <div className="segmented" role="radiogroup" aria-label={label}>
      {choices.map((c) => (
        <label key={c.value} className={c.value === value ? "on" : ""}>
          <input type="radio" name={name} checked={c.value === value} onChange={() => onChange(c.value)} />
          <span>{c.label}</span>
        </label>
      ))}
    </div>
  );
}

/** How much of a limit is used. Nothing is drawn where there is no limit. */
export function Meter({ value, max, label }: { value: number; max: number | undefined; label: string }) {
  if (!max) return null;
  const part = Math.min(1, value / max);
  const tone = part >= 0.9 ? "bad" : part >= 0.7 ? "warn" : "";
  return (
    <svg className={`meter ${tone}`} viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label={`${label}: ${Math.round(part * 100)} % of the limit`}>
      <rect width="100" height="4" className="meter-track" />
      <rect width={Math.max(part * 100, part > 0 ? 2 : 0)} height="4" className="meter-fill" />
    </svg>
  );
}

export function Empty({ icon, title, children }: { icon: IconName; title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <span className="empty-icon">
        <Icon name={icon} size={22} />
      </span>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Notice({ tone = "info", children, action }: { tone?: "info" | "warn" | "bad" | "good"; children: ReactNode; action?: ReactNode }) {
  return (
    <div className={`notice ${tone}`} role={tone === "bad" ? "alert" : undefined}>
      <Icon name={tone === "info" ? "info" : tone === "good" ? "check" : "warn"} />
      <div className="notice-text">{children}</div>
      {action}
    </div>
  );
}

export function Kbd({ children }: { children: ReactNode }) {
  return <kbd>{children}</kbd>;
}

// Short messages, also for those who listen: the region is announced.
import { useSyncExternalStore } from "react";

interface Toast {
  id: number;
  text: string;
  tone: "good" | "bad";
}

let toasts: Toast[] = [];
let spoken = "";
let next = 1;
const listeners = new Set<() => void>();
const tell = () => listeners.forEach((l) => l());
const subscribe = (l: () => void) => {
  listeners.add(l);
  return () => listeners.delete(l);
};

export function toast(text: string, tone: Toast["tone"] = "good"): void {
  const t = { id: next++, text, tone };
  toasts = [...toasts.slice(-2), t];
  tell();
  setTimeout(() => {
    toasts = toasts.filter((x) => x.id !== t.id);
    tell();
  }, tone === "bad" ? 9000 : 3500);
}

/** Says something to screen readers alone. */
export function announce(text: string): void {
  spoken = text;
  tell();
}

export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    toast("The browser did not allow copying; select the text instead", "bad");
  }
}

export function Toasts() {
  const list = useSyncExternalStore(subscribe, () => toasts);
  const say = useSyncExternalStore(subscribe, () => spoken);
  return (
    <>
      <div className="toasts" role="status" aria-live="polite">
        {list.map((t) => (
          <p key={t.id} className={`toast ${t.tone}`}>
            {t.text}
          </p>
        ))}
      </div>
      <p className="visually-hidden" aria-live="polite">
        {say}
      </p>
    </>
  );
}

import { useEffect, useRef, type ReactNode } from "react";
import { Icon, type IconName } from "./icons";

export interface Tab {
  id: string;
  label: string;
  icon: IconName;
  badge?: string;
  tone?: "warn"; // of the badge: bad, if left out
}

/** Tabs as the ARIA practices have them: arrows move, one is in the tab order. */
export function Tabs({ label, tabs, value, onChange, children }: { label: string; tabs: Tab[]; value: string; onChange: (id: string) => void; children: ReactNode }) {
  const list = useRef<HTMLDivElement>(null);
  // The tab of an address may be one that there is no room for.
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView?.({ block: "nearest", inline: "nearest" });
  }, [value]);
  const move = (e: React.KeyboardEvent) => {
    const at = tabs.findIndex((t) => t.id === value);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const next = tabs[(to + tabs.length) % tabs.length]!;
    onChange(next.id);
    list.current?.querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <div className="tabs">
      <div className="tab-bar">
        <div className="tab-list" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
          {tabs.map((t) => (
            <button
              key={t.id}
              type="button"
              role="tab"
              data-tab={t.id}
              id={`tab-${t.id}`}
              aria-selected={t.id === value}
              aria-controls={`panel-${t.id}`}
              tabIndex={t.id === value ? 0 : -1}
              onClick={() => onChange(t.id)}
            >
              <Icon name={t.icon} />
              <span>{t.label}</span>
              {t.badge && <span className={`tab-badge ${t.tone ?? ""}`}>{t.badge}</span>}
            </button>
          ))}
        </div>
      </div>
      <div className="tab-panel" role="tabpanel" id={`panel-${value}`} aria-labelledby={`tab-${value}`} tabIndex={-1}>
        {children}
      </div>
    </div>
  );
}

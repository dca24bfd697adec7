// Keyboard shortcuts. Those that work at the moment are the ones that the
// overlay lists.
import { useEffect, useRef, useSyncExternalStore } from "react";
import { Kbd } from "./controls";
import { Dialog } from "./dialog";

interface Shortcut {
  keys: string; // "g j": one after the other
  text: string;
  group: string;
  run: (e: KeyboardEvent) => void;
}

let active: Shortcut[] = [];
const listeners = new Set<() => void>();
let pending = "";
let pendingTimer: ReturnType<typeof setTimeout> | undefined;

function typing(e: KeyboardEvent): boolean {
  const t = e.target as HTMLElement | null;
  return !!t && (t.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(t.tagName) || !!t.closest("[data-keys=own], dialog"));
}

window.addEventListener("keydown", (e) => {
  if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || typing(e)) return;
  const sequence = pending ? `${pending} ${e.key}` : e.key;
  clearTimeout(pendingTimer);
  pending = "";
  const hit = active.findLast((s) => s.keys === sequence) ?? active.findLast((s) => s.keys === e.key);
  if (hit) {
    e.preventDefault();
    hit.run(e);
    return;
  }
  if (active.some((s) => s.keys.startsWith(e.key + " "))) {
    pending = e.key;
    pendingTimer = setTimeout(() => (pending = ""), 1000);
  }
});

/** Binds a key while the component is there. */
export function useShortcut(keys: string, text: string, group: string, run: (e: KeyboardEvent) => void, enabled = true): void {
  const latest = useRef(run);
  useEffect(() => {
    latest.current = run;
  });
  useEffect(() => {
    if (!enabled) return;
    const s: Shortcut = { keys, text, group, run: (e) => latest.current(e) };
    active = [...active, s];
    listeners.forEach((l) => l());
    return () => {
      active = active.filter((x) => x !== s);
      listeners.forEach((l) => l());
    };
  }, [keys, text, group, enabled]);
}

export function ShortcutOverlay({ onClose }: { onClose: () => void }) {
  const list = useSyncExternalStore(
    (l) => {
      listeners.add(l);
      return () => listeners.delete(l);
    },
    () => active,
  );
  const groups = [...new Set(list.map((s) => s.group))];
  return (
    <Dialog title="Keyboard" onClose={onClose} wide>
      <div className="shortcut-groups">
        {groups.map((g) => (
          <section key={g}>
            <h3>{g}</h3>
            <dl>
              {list
                .filter((s) => s.group === g)
                .map((s) => (
                  <div key={s.keys}>
                    <dt>
                      {s.keys.split(" ").map((k) => (
                        <Kbd key={k}>{k}</Kbd>
                      ))}
                    </dt>
                    <dd>{s.text}</dd>
                  </div>
                ))}
            </dl>
          </section>
        ))}
        <section>
          <h3>In a text box</h3>
          <dl>
            <div>
              <dt>
                <Kbd>Ctrl</Kbd>
                <Kbd>Enter</Kbd>
              </dt>
              <dd>Send</dd>
            </div>
          </dl>
        </section>
      </div>
    </Dialog>
  );
}

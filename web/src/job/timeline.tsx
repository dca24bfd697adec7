// The timeline: what happened, newest at the bottom. Only what is in view is
// in the document, so that ten thousand items scroll as well as ten.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import type { Item } from "../model/history";
import { Button, Spinner } from "../ui/controls";
import { useShortcut } from "../ui/shortcuts";
import { useJob } from "./context";
import { DraftView, isQuiet, ItemView } from "./items";

const estimates: Partial<Record<Item["kind"], number>> = { system: 34, egress: 38, reasoning: 34, text: 70, task: 90, tool: 90, verified: 160, finished: 90, fold: 120, summaries: 80, instructions: 76, project: 76 };

export function Timeline() {
  const { history, version, step, ended, connection } = useJob();
  const scroller = useRef<HTMLDivElement>(null);
  const top = useRef(0); // where the scroller was at the last event
  const [follow, setFollow] = useState(!ended);
  const [fits, setFits] = useState(true); // nothing to scroll to
  const [at, setAt] = useState(-1);
  const [quiet, setQuiet] = useState(false);
  // What the person folded or unfolded; kept while items come and go.
  const [folds] = useState(() => new Map<string, boolean>());
  const [, redraw] = useState(0);
  const toggle = useCallback(
    (key: string, open: boolean) => {
      folds.set(key, open);
      redraw((n) => n + 1);
    },
    [folds],
  );

  const shown = quiet ? history.items.filter((i) => !isQuiet(i)) : history.items;
  const items = shown;
  const draft = step === null ? history.draft : null;
  const virtual = useVirtualizer({
    count: items.length + (draft ? 1 : 0),
    getScrollElement: () => scroller.current,
    estimateSize: (i) => estimates[items[i]?.kind ?? "text"] ?? 60,
    getItemKey: (i) => items[i]?.key ?? "draft",
    overscan: 8,
    paddingStart: 12,
    paddingEnd: 20,
  });
  const total = virtual.getTotalSize();

  // Stay at the end while the person is there.
  useLayoutEffect(() => {
    const el = scroller.current;
    if (!el) return;
    setFits(el.scrollHeight - el.clientHeight < 60);
    if (follow && step === null) el.scrollTop = el.scrollHeight;
  }, [version, total, follow, step, draft]);
  // A question below takes room away; what was at the end stays in view.
  useEffect(() => {
    const el = scroller.current;
    if (!el || !follow || step !== null) return;
    const watch = new ResizeObserver(() => {
      el.scrollTop = el.scrollHeight;
    });
    watch.observe(el);
    return () => watch.disconnect();
  }, [follow, step]);
  const onScroll = () => {
    const el = scroller.current;
    if (!el) return;
    const end = el.scrollHeight - el.scrollTop - el.clientHeight < 60;
    // Away from the end by going up only: what grows below, such as a picture
    // that arrives, is not a person's scrolling.
    const up = el.scrollTop < top.current;
    top.current = el.scrollTop;
    if (end ? !follow : follow && up) setFollow(end);
  };

  // Looking at a step brings its first item to the top.
  useEffect(() => {
    if (step === null) return;
    const first = items.findIndex((i) => i.step >= step);
    if (first >= 0) virtual.scrollToIndex(first, { align: "start" });
    // Only when the step changes: new items must not move the view.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [step]);

  const move = (by: number) => {
    const visible = virtual.range?.startIndex ?? 0;
    const to = Math.max(0, Math.min(items.length - 1, at < 0 ? (by > 0 ? visible : items.length - 1) : at + by));
    setAt(to);
    setFollow(to === items.length - 1);
    virtual.scrollToIndex(to, { align: "auto" });
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-index="${to}"]`)?.focus({ preventScroll: true }));
  };
  useShortcut("j", "Next in the timeline", "Timeline", () => move(1));
  useShortcut("k", "Previous in the timeline", "Timeline", () => move(-1));
  useShortcut("o", "Fold or unfold", "Timeline", () => scroller.current?.querySelector<HTMLElement>(`[data-index="${at}"] [aria-expanded]`)?.click());
  useShortcut("G", "To the newest", "Timeline", () => {
    setAt(items.length - 1);
    setFollow(true);
  });
  useShortcut("h", "Show or hide what Glovebox says", "Timeline", () => setQuiet((q) => !q));

  return (
    <div className="timeline">
      <div className="timeline-scroll" ref={scroller} onScroll={onScroll} role="feed" aria-label="Timeline" aria-busy={connection === "connecting"} tabIndex={0}>
        {items.length === 0 && (
          <div className="loading">
            <Spinner />
          </div>
        )}
        <div className="timeline-space" ref={(el) => el?.style.setProperty("height", `${total}px`)}>
          {virtual.getVirtualItems().map((v) => {
            const item = items[v.index];
            const before = items[v.index - 1];
            const newStep = !!item && item.step > 0 && item.step !== before?.step;
            return (
              <article
                key={v.key}
                data-index={v.index}
                ref={(el) => {
                  el?.style.setProperty("transform", `translateY(${v.start}px)`);
                  virtual.measureElement(el);
                }}
                className={`row ${v.index === at ? "current" : ""} ${item && step !== null && item.step > step ? "later" : ""} ${newStep ? "new-step" : ""}`}
                tabIndex={-1}
                aria-posinset={v.index + 1}
                aria-setsize={items.length}
                onFocus={() => setAt(v.index)}
              >
                {item ? <ItemView item={item} newStep={newStep} fold={folds.get(item.key)} onFold={toggle} /> : draft && <DraftView draft={draft} version={version} />}
              </article>
            );
          })}
        </div>
      </div>
      {!follow && !fits && step === null && (
        <Button small icon="arrowDown" className="to-newest" onClick={() => setFollow(true)}>
          {ended ? "To the end" : "To the newest"}
        </Button>
      )}
    </div>
  );
}

import { useRef, useState } from "react";

/** The share of the left pane, kept from visit to visit. */
export function usePaneWidth(key: string, initial: number): [number, (v: number) => void] {
  const [width, setWidth] = useState(() => {
    try {
      const v = Number(localStorage.getItem(key));
      return v >= 0.25 && v <= 0.75 ? v : initial;
    } catch {
      return initial;
    }
  });
  const set = (v: number) => {
    const bounded = Math.min(0.75, Math.max(0.25, v));
    setWidth(bounded);
    try {
      localStorage.setItem(key, String(bounded));
    } catch {
      // It holds until the page is left.
    }
  };
  return [width, set];
}

/** Moves the border between two panes, with the pointer or with the arrow keys. */
export function Splitter({ value, onChange }: { value: number; onChange: (v: number) => void }) {
  const ref = useRef<HTMLDivElement>(null);
  return (
    <div
      ref={ref}
      className="splitter"
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the timeline"
      aria-valuemin={25}
      aria-valuemax={75}
      aria-valuenow={Math.round(value * 100)}
      tabIndex={0}
      onKeyDown={(e) => {
        if (e.key === "ArrowLeft") onChange(value - 0.02);
        if (e.key === "ArrowRight") onChange(value + 0.02);
      }}
      onDoubleClick={() => onChange(0.5)}
      onPointerDown={(e) => {
        e.currentTarget.setPointerCapture(e.pointerId);
        e.preventDefault();
      }}
      onPointerMove={(e) => {
        if (!e.currentTarget.hasPointerCapture(e.pointerId)) return;
        const box = ref.current?.parentElement?.getBoundingClientRect();
        if (box) onChange((e.clientX - box.left) / box.width);
      }}
    />
  );
}

import { useEffect, useId, useRef, type ReactNode } from "react";
import { IconButton } from "./controls";

/** A modal dialog; the browser keeps the focus in it and gives it back. */
export function Dialog({ title, onClose, children, footer, wide }: { title: string; onClose: () => void; children: ReactNode; footer?: ReactNode; wide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const d = ref.current;
    if (!d || d.open) return;
    d.showModal();
    // Not the cross: what there is to fill in, else what changes nothing.
    d.querySelector<HTMLElement>("input:not([readonly], [type=radio]), footer button, footer a, [tabindex='0']")?.focus();
  }, []);
  return (
    <dialog
      ref={ref}
      className={wide ? "wide" : ""}
      aria-labelledby={id}
      onClose={onClose}
      onCancel={(e) => {
        e.preventDefault();
        onClose();
      }}
      onMouseDown={(e) => {
        if (e.target === ref.current) onClose();
      }}
    >
      <div className="dialog-body">
        <header>
          <h2 id={id}>{title}</h2>
          <IconButton icon="cross" label="Close" onClick={onClose} />
        </header>
        {children}
        {footer && <footer>{footer}</footer>}
      </div>
    </dialog>
  );
}

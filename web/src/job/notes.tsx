// What a model or a machine wrote down about the past: shown as data, always.
import { useState, type ReactNode } from "react";
import { plain } from "../model/ansi";
import { noteTitle } from "../model/memory";
import type { Summary } from "../api/types";
import { Icon } from "../ui/icons";

/** Something with a heading that unfolds; its content is made only then. */
export function Fold({ title, peek, tag, children, open = false }: { title: ReactNode; peek?: string; tag?: string; children: () => ReactNode; open?: boolean }) {
  const [is, set] = useState(open);
  return (
    <div className={`item-fold ${is ? "open" : ""}`}>
      <button type="button" className="fold-head" aria-expanded={is} onClick={() => set(!is)}>
        <Icon name="chevron" />
        <span className="fold-kind">{title}</span>
        {tag && <span className="pill">{tag}</span>}
        {!is && peek && <span className="fold-peek">{peek}</span>}
      </button>
      {is && <div className="fold-body">{children()}</div>}
    </div>
  );
}

const maxText = 40_000; // characters that are shown of a text

/** Foreign text as it is. */
export function Verbatim({ text }: { text: string }) {
  const t = plain(text);
  return <p className="pre-wrap verbatim">{t.length > maxText ? t.slice(0, maxText) + "\n\u2026" : t}</p>;
}

export const firstLine = (text: string): string => plain(text).trim().split("\n")[0]!.replace(/^#+\s*/, "").slice(0, 160);

/** Notes on what happened, each naming the events that it stands for. */
export function NoteList({ notes }: { notes: Summary[] }) {
  return (
    <ul className="note-list">
      {notes.map((n) => (
        <li key={`${n.level}.${n.from}`}>
          <Fold title={noteTitle(n)} tag={n.by === "model" ? "by the model" : "derived"} peek={firstLine(n.text)}>
            {() => <Verbatim text={n.text} />}
          </Fold>
        </li>
      ))}
    </ul>
  );
}
